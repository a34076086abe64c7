"""What clients were told, and what follows from it: the judge of each seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simnodes.world import World


FORCED = "promotion is forced"        # records of failovers must tell what it cost


class Message:
    def __init__(self, queue: str, publisher: str, number: int, *, is_persistent: bool) -> None:
        self.queue = queue
        self.publisher = publisher
        self.number = number
        self.is_persistent = is_persistent
        self.is_confirmed = False
        self.is_refused = False
        self.deliveries = 0
        self.delivered_to = ""
        self.new_to = ""                # who received it with `redelivered` false
        self.may_be_gone = False        # somebody has sent its acknowledgement, or purged its queue
        self.must_be_gone = False       # and was told that this is done

    def __str__(self) -> str:
        return f"{self.publisher}/{self.number} of {self.queue}"


class Ledger:
    def __init__(self, world: World) -> None:
        self.world = world
        self.messages: dict[tuple[str, int], Message] = {}
        self.confirmed = 0
        self.delivered = 0
        self.committed = 0
        self.keeps_transient = False        # nothing happens in this seed that may take transient messages
        self.lossy: dict[str, str] = {}     # queues that may lose what was confirmed, and why

    def sent(self, queue: str, publisher: str, number: int, *, is_persistent: bool = True) -> Message:
        message = Message(queue, publisher, number, is_persistent=is_persistent)
        self.messages[publisher, number] = message
        return message

    def confirm(self, message: Message) -> None:
        message.is_confirmed = True
        self.confirmed += 1

    def delivery(self, body: bytes, queue: str, client: str, *, redelivered: bool) -> Message | None:
        """A client has received it."""
        publisher, _, rest = body.partition(b"/")
        message = self.messages.get((publisher.decode(), int(rest.partition(b"/")[0])))
        if message is None:
            self.world.violate(f"(unknown) {client} received {body[:40]!r} from {queue}, which nobody has published")
            return None
        self.world.note(client, f"receives {message}{', redelivered' if redelivered else ''}")
        if message.queue != queue:
            self.world.violate(f"(unknown) {client} received {message} from {queue}")
        lossy = queue in self.lossy
        if message.must_be_gone and not lossy:
            self.world.violate(f"(committed) {client} received {message}, whose acknowledgement was committed before")
        message.deliveries += 1
        message.delivered_to = f"{client} at {self.world.now:.3f}"
        if not redelivered:     # what is still on its way to a client whose node stops may come behind its second delivery
            if message.new_to and not lossy:
                self.world.violate(f"(redelivered) {client} received {message} as new, and so did {message.new_to}")
            message.new_to = message.delivered_to
        self.delivered += 1
        return message

    def judge(self, queue: str, left: list[Message], verdicts: list[dict[str, Any]]) -> None:
        """In the end this is what the queue held, and what the records of its failovers say."""
        there = {id(message) for message in left}
        missing = [message for message in self.messages.values() if message.queue == queue and id(message) not in there
                   and message.is_confirmed and not message.may_be_gone and (message.is_persistent or self.keeps_transient)]
        if missing and queue not in self.lossy:
            message = missing[0]
            self.world.violate(f"(lost) {message} was confirmed, never acknowledged, and is not there"
                               + (f"; it was last delivered to {message.delivered_to}" if message.deliveries else ""))
        elif missing and self.lossy[queue] == FORCED and None not in (told := [record.get("lost") for record in verdicts]) \
                and sum(told) < len(missing):
            self.world.violate(f"(audit) {len(missing)} confirmed messages of {queue} are missing, such as {missing[0]}, and the "
                               f"{len(verdicts)} records of its failovers tell of {sum(told)}")
        elif not missing and any(record.get("lost") for record in verdicts) and queue not in self.lossy:
            self.world.violate(f"(audit) nothing confirmed of {queue} is missing, and a record says: "
                               + next(record["verdict"] for record in verdicts if record.get("lost")))
