import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from ottla.audit.chains import chains
from ottla.audit.events import AUDIT_TOPIC, Event
from ottla.broker.audit.log_counts import AUDIT_OFFSETS
from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import delete_topic
from ottla.broker.start_error import StartError
from ottla.records import decode_batch
from ottla.wire.batch import headers
from testkit.batches import now_ms
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import killed, new_node, running, topic, write
from tests.log.making import read_all

ON = {"ottla.audit.enable": "true", "ottla.audit.interval.ms": "3600000"}
"""No round but those that a test asks for."""


def told(node: BrokerServer) -> list[Event]:
    """The events in the audit topic."""
    found = node.partitions.of_topic(AUDIT_TOPIC)
    data = memoryview(read_all(found[0].log)) if found else memoryview(b"")
    return [
        Event.decode(record.value)
        for at, header in headers(data)
        for record in decode_batch(data[at : at + header.size])
    ]


def counted(node: BrokerServer, name: str = "orders") -> int:
    """What counts of the topic, after all duplicates are left out."""
    return sum(
        n
        for chain in chains(told(node))
        if chain.topic == name
        for event in chain.events
        for *_, n in event.counts
    )


async def count(node: BrokerServer) -> None:
    while await node.audit.count():
        pass


def run(work: Coroutine[None, None, None]) -> None:
    asyncio.run(work)


def test_what_is_stored_is_counted_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, ON) as node:
            partition = await topic(node, "orders", 2)
            write(partition, 5)
            await count(node)
            await count(node)
            assert len(told(node)) == 1
            write(partition, 3)
            write(node.partitions.find("orders", 1), 2)
            await count(node)
            assert counted(node) == 10

    run(work())


def test_more_logs_than_an_order_takes_are_all_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.audit.log_counts.LOGS_IN_AN_ORDER", 2)

    async def work() -> None:
        async with running(tmp_path, ON) as node:
            await topic(node, "orders", 5)
            for index in range(5):
                write(node.partitions.find("orders", index), 2)
            await count(node)
            assert counted(node) == 10

    run(work())


def test_the_audit_and_internal_topics_are_not_audited(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, {**ON, "ottla.audit.topics": "orders|__.*"}) as node:
            write(await topic(node, "orders"))
            write(await topic(node, "returns"))
            await node.groups.ensure_topic()
            await count(node)
            await count(node)
            assert {event.topic for event in told(node)} == {"orders"}

    run(work())


def test_a_stop_counts_the_rest_and_a_start_continues_from_there(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, ON) as node:
            write(await topic(node, "orders"), 5)
        async with running(tmp_path, ON) as node:
            assert counted(node) == 5
            write(node.partitions.find("orders", 0), 2)
            await count(node)
            assert counted(node) == 7
            assert [event.sequence for event in told(node)] == [0, 5]

    run(work())


@pytest.mark.parametrize("moment", ["before counting", "before the checkpoint", "after it"])
def test_a_kill_loses_and_doubles_nothing(tmp_path: Path, moment: str) -> None:
    data, left = tmp_path / "data", tmp_path / "left"

    async def live() -> None:
        async with running(data, ON) as node:
            write(await topic(node, "orders"), 4)
            await count(node)
            write(node.partitions.find("orders", 0), 3)
            if moment == "before counting":
                killed(data, left)
            elif moment == "before the checkpoint":
                older = (data / AUDIT_OFFSETS).read_bytes()
                await count(node)
                killed(data, left)
                (left / AUDIT_OFFSETS).write_bytes(older)
            else:
                await count(node)
                killed(data, left)

    async def live_again() -> None:
        async with running(left, ON) as node:
            await until(lambda: node.partitions.get("orders", 0))
            await until(lambda: node.partitions.get(AUDIT_TOPIC, 0))
            write(node.partitions.find("orders", 0), 2)
            await count(node)
            assert counted(node) == 9
            assert all(not chain.notes(now_ms()) for chain in chains(told(node)))

    run(live())
    run(live_again())


def test_a_topic_recreated_is_counted_from_its_beginning(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, ON) as node:
            write(await topic(node, "orders"), 5)
            await count(node)
            await delete_topic(node.metadata, "orders")
            write(await topic(node, "orders"), 2)
            await count(node)
            assert counted(node) == 7
            assert len(node.folder.read_checkpoint(AUDIT_OFFSETS)) == 1

    run(work())


def test_records_deleted_before_they_were_counted_are_told_as_a_gap(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, ON) as node:
            partition = await topic(node, "orders")
            write(partition, 2)
            await count(node)
            write(partition, 5)
            partition.log.raise_start_offset(6)
            await count(node)
            assert counted(node) == 3
            (chain,) = chains(told(node))
            assert chain.gaps == [(2, 6)]

    run(work())


def test_a_log_that_lost_counted_records_is_told_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, ON) as node:
            partition = await topic(node, "orders")
            write(partition, 5)
            await count(node)
            partition.log.truncate_to(3)
            partition.high_watermark = 3
            await count(node)
            write(partition, 1)
            await count(node)
            (chain,) = chains(told(node))
            assert chain.lost == {(0, 3, 5)}
            assert counted(node) == 6

    run(work())


def test_a_child_that_dies_is_replaced(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, ON) as node:
            partition = await topic(node, "orders")
            write(partition, 5)
            await count(node)
            child = node.audit._child
            assert child is not None
            child.kill()
            await child.end()
            write(partition, 5)
            await count(node)
            assert counted(node) == 10

    run(work())


def test_one_log_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, ON) as node:
            write(await topic(node, "broken"), 1)
            write(await topic(node, "orders"), 3)
            segment = next((tmp_path / "broken-0").glob("*.log"))
            segment.rename(segment.with_suffix(".away"))
            await count(node)
            assert counted(node) == 3
            segment.with_suffix(".away").rename(segment)
            await count(node)
            assert counted(node, "broken") == 1

    run(work())


def test_without_the_setting_nothing_happens(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as node:
            write(await topic(node, "orders"), 3)
        assert not (tmp_path / AUDIT_OFFSETS).exists()
        async with running(tmp_path, ON) as node:
            assert AUDIT_TOPIC not in node.image.topics

    run(work())


def test_a_wrong_pattern_is_said_at_the_start(tmp_path: Path) -> None:
    async def work() -> None:
        node = new_node(tmp_path, {**ON, "ottla.audit.topics": "("})
        await node.open()
        try:
            with pytest.raises(StartError, match=r"ottla\.audit\.topics"):
                await node.start({"PLAINTEXT": 1})
        finally:
            await node.close()

    run(work())
