"""On real rings over sockets: who waits for a message gets it before it is confirmed, and before whoever asks later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pika
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from .trio import PERSISTENT, QUEUE, Nodes, nodes_in, until

TRANSIENT = pika.BasicProperties(delivery_mode=1)


def connect(nodes: Nodes, name: str) -> BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("localhost", nodes.port(name), heartbeat=0))


async def test_a_waiting_consumer_comes_before_a_get_behind_the_publish(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, "a", "b") as nodes:
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])

        def count_taken() -> int:
            consumer, getter = connect(nodes, "a"), connect(nodes, "a")
            consumer.channel().basic_consume(QUEUE, lambda *_: None, auto_ack=True)
            channel = getter.channel()
            taken = 0
            for _ in range(200):
                channel.basic_publish("", QUEUE, b"x", PERSISTENT)
                method, _, _ = channel.basic_get(QUEUE, auto_ack=True)
                taken += method is not None
            consumer.close()
            getter.close()
            return taken

        assert await asyncio.to_thread(count_taken) == 0


async def test_a_transient_message_is_delivered_before_it_is_confirmed(tmp_path: Path) -> None:
    """It is received all round long before the disks know that it may have been delivered."""
    async with nodes_in(tmp_path, "a", "b") as nodes:
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])

        def orders() -> list[list[type[object]]]:
            connection = connect(nodes, "a")
            seen: list[list[type[object]]] = []
            process = connection._impl._process_frame

            def watch(frame: pika.frame.Method) -> None:
                method = getattr(frame, "method", None)
                if seen and isinstance(method, spec.Basic.Deliver | spec.Basic.Ack):
                    seen[-1].append(type(method))
                process(frame)

            connection._impl._process_frame = watch
            publisher, consumer = connection.channel(), connection.channel()
            publisher.confirm_delivery()
            consumer.basic_qos(prefetch_count=1)
            acknowledged: list[int] = []

            def acknowledge(channel: BlockingChannel, method: spec.Basic.Deliver, *_: object) -> None:
                channel.basic_ack(method.delivery_tag)
                acknowledged.append(method.delivery_tag)

            consumer.basic_consume(QUEUE, acknowledge)
            for number in range(40):
                seen.append([])
                publisher.basic_publish("", QUEUE, b"x", TRANSIENT)
                while len(acknowledged) == number:
                    connection.process_data_events(0.02)
            connection.close()
            return seen

        assert await asyncio.to_thread(orders) == [[spec.Basic.Deliver, spec.Basic.Ack]] * 40
