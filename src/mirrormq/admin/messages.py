"""Publishing a message, getting messages, and the aliveness test that does both."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any, Final

from mirrormq.admin.call import Answer, Call, Json, as_integer
from mirrormq.admin.errors import ApiError, bad_request, missing, not_authorised, unavailable
from mirrormq.admin.exchanges import real_name
from mirrormq.admin.session import Session
from mirrormq.admin.values import from_properties, to_properties
from mirrormq.broker.channel import Delivery
from mirrormq.wire.errors import AccessRefused, AMQPError, NotFound
from mirrormq.wire.methods import QueueDeclare
from mirrormq.wire.properties import Properties, decode_properties

PATIENCE: Final = 10.0      # seconds for a message to become stable
ACK_MODES: Final[dict[str, tuple[bool, bool]]] = {      # requeue, reject
    "ack_requeue_true": (True, False), "ack_requeue_false": (False, False),
    "reject_requeue_true": (True, True), "reject_requeue_false": (False, True),
}  # fmt: skip
ALIVENESS_QUEUE: Final = "aliveness-test"


async def publish_message(call: Call) -> Answer:
    vhost = call.vhost_to_change()
    call.need_all("routing_key", "properties", "payload", "payload_encoding")
    routing_key = call.need_text("routing_key")
    properties = to_properties(call.need("properties"))
    payload = _payload(call.need_text("payload"), call.need("payload_encoding"))
    if call.broker.alarms:
        raise unavailable(", ".join(sorted(call.broker.alarms.values())))
    try:
        with Session(call.broker, call.principal.user, vhost) as session:
            routed = await _publish(session, real_name(call.args["name"]), routing_key, properties, payload)
    except AccessRefused as error:
        raise _refused(error) from None
    except AMQPError as error:
        raise bad_request(str(error)) from None
    return Answer(200, {"routed": routed})


async def _publish(session: Session, exchange: str, key: str, properties: Properties, payload: bytes) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            return await session.publish(exchange, key, properties, payload)
    except TimeoutError:
        raise unavailable("the message has not become stable in time") from None


async def _get(session: Session, queue: str) -> Delivery | None:
    try:
        async with asyncio.timeout(PATIENCE):
            return await session.get(queue)
    except TimeoutError:
        raise unavailable("the delivery has not become stable in time") from None


def _refused(error: AccessRefused) -> ApiError:
    """A missing permission; what nobody may do, such as publishing to an internal exchange, is a bad request."""
    if "internal exchange" in error.text:
        return bad_request(str(error))
    return not_authorised("Access refused.")


def _payload(text: str, encoding: object) -> bytes:
    if encoding == "string":
        return text.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", text]) from None


# --- getting --------------------------------------------------------------------------------------------------------


async def get_messages(call: Call) -> Answer:
    vhost = call.vhost_to_change()
    mode = call.need("ackmode")
    count = as_integer(call.need("count"))
    encoding = call.need("encoding")
    if mode not in ACK_MODES:
        raise bad_request(["unknown_ackmode", mode])
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    truncate = as_integer(call.body["truncate"]) if "truncate" in call.body else None
    requeue, reject = ACK_MODES[mode]
    try:
        with Session(call.broker, call.principal.user, vhost) as session:
            rows = await _take(session, call.args["name"], count, encoding, truncate)
            session.settle(requeue=requeue, reject=reject)
    except NotFound as error:
        raise missing(error.reply_text) from None
    except AccessRefused:
        raise not_authorised("Access refused.") from None
    except AMQPError as error:
        raise bad_request(str(error)) from None
    return Answer(200, rows)


async def _take(session: Session, queue: str, count: int, encoding: str, truncate: int | None) -> list[Json]:
    rows: list[Json] = []
    while len(rows) < count:
        delivery = await _get(session, queue)
        if delivery is None:
            break
        rows.append(_show(delivery, session.left, encoding, truncate))
    return rows


def _show(delivery: Delivery, left: int, encoding: str, truncate: int | None) -> Json:
    message = delivery.message
    body = message.body()
    row: dict[str, Any] = {
        "payload_bytes": len(body), "redelivered": message.redelivered, "exchange": message.exchange(),
        "routing_key": message.routing_key(), "message_count": left,
        "properties": from_properties(decode_properties(message.info.properties, 0)),
    }  # fmt: skip
    return row | _shown_payload(body if truncate is None else body[:truncate], encoding)


def _shown_payload(body: bytes, encoding: str) -> Json:
    if encoding == "auto":
        try:
            return {"payload": body.decode("utf-8"), "payload_encoding": "string"}
        except UnicodeDecodeError:
            pass
    return {"payload": base64.b64encode(body).decode("ascii"), "payload_encoding": "base64"}


# --- aliveness ------------------------------------------------------------------------------------------------------


async def aliveness(call: Call) -> Answer:
    """Declare a queue, publish to it and get the message back."""
    vhost = call.vhost()
    if not call.broker.authority.vhost_allowed(call.principal.name, vhost.name):
        raise not_authorised("Access refused.")
    try:
        with Session(call.broker, call.principal.user, vhost) as session:
            await session.do(QueueDeclare(ALIVENESS_QUEUE))
            await _publish(session, "", ALIVENESS_QUEUE, Properties(), b"test_message")
            await _get(session, ALIVENESS_QUEUE)
            session.settle(requeue=False, reject=False)
    except AccessRefused as error:
        raise not_authorised(error.reply_text) from None
    except AMQPError as error:
        raise bad_request(str(error)) from None
    return Answer(200, {"status": "ok"})
