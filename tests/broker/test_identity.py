"""A name is not an identity: what is kept under a topic's name counts for that topic alone.

Seeded runs of one broker with one topic name. The topic is written to, cleaned, cut from below,
deleted, created again and moved away and back, while the broker is up or down, with clean stops and
kills in between. After every step the log must be what a naive model says: a list of records for
each life of the replica.
"""

import asyncio
import shutil
import uuid
from pathlib import Path
from random import Random

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import delete_topic
from ottla.broker.replicas.partition import Partition
from ottla.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from ottla.log.storage.checkpoint import decode_lines
from ottla.log.storage.folder import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
)
from ottla.metadata.controller import change_assignment
from ottla.metadata.image import BrokerImage, Image
from ottla.metadata.store import Op
from ottla.metadata.stores.sqlite_store import SqliteStore
from ottla.metadata.topics import NewTopic, create_topic
from ottla.metadata.topics import delete_topic as decide_deletion
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import new_cleaner, new_node
from tests.log.compacting import keyed, records

NAME = "table"
ELSEWHERE = 99
STEPS = 25
SEEDS = 6
CONFIGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0",
    "file.delete.delay.ms": "0",
}
Entry = tuple[str, str | None]


class Life:
    """What one life of the replica was given."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0
        self.sequence = 0

    def view(self) -> dict[str, str]:
        """What a reader of the whole log ends with."""
        seen = dict(self.entries[self.start :])
        return {key: value for key, value in seen.items() if value is not None}


class Run:
    """One broker, and the model of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder / "data"
        self.copy = folder / "copy"
        self.random = Random(seed)
        self.node: BrokerServer | None = None
        self.life: Life | None = None
        self.is_elsewhere = False
        self.did: list[str] = []

    # What happens --------------------------------------------------------------------------

    async def step(self) -> None:
        if self.node is None:
            choices = [self.start, self.recreate_while_down, self.move_while_down]
        else:
            choices = [
                *[self.write] * 4,
                *[self.clean] * 3,
                self.cut,
                self.note,
                self.recreate,
                self.move,
                self.stop,
                self.kill,
            ]
        chosen = self.random.choice(choices)
        self.did.append(chosen.__name__)
        await chosen()
        if self.node is not None:
            self.check()

    async def start(self) -> None:
        self.node = new_node(self.folder)
        await self.node.open()
        await self.node.start({"PLAINTEXT": 1})
        if self.is_elsewhere:
            self.life = None
        if self.life is None and not self.is_elsewhere and NAME not in self.node.image.topics:
            await self.create()

    async def stop(self) -> None:
        assert self.node is not None
        await self.node.close()
        self.node = None

    async def kill(self) -> None:
        """What the folder has now is what the next start finds."""
        while True:
            try:
                shutil.copytree(self.folder, self.copy)
                break
            except shutil.Error:  # a deleted folder was removed meanwhile
                shutil.rmtree(self.copy)
        await self.stop()
        shutil.rmtree(self.folder)
        self.copy.rename(self.folder)

    async def write(self) -> None:
        partition = self.partition()
        if partition is None or self.life is None:
            return
        await until(lambda: partition.leads)
        for _ in range(self.random.randrange(1, 6)):
            key = f"key-{self.random.randrange(3)}"
            value = None if self.random.random() < 0.4 else str(self.random.random())
            batch = keyed((key, value), producer=7, epoch=0, sequence=self.life.sequence)
            assert not partition.append(batch, self.now(), 12).duplicate
            self.life.sequence += 1
            self.life.entries.append((key, value))
        if self.random.random() < 0.7:
            partition.log.roll(self.now())

    async def clean(self) -> None:
        assert self.node is not None
        cleaner = new_cleaner(self.node)
        while await cleaner.clean_dirtiest_logs():
            pass
        await cleaner.stop()

    async def cut(self) -> None:
        partition = self.partition()
        if partition is None or self.life is None or self.node is None:
            return
        self.life.start = self.random.randint(self.life.start, len(self.life.entries))
        partition.log.raise_start_offset(self.life.start)
        await self.node.log_manager.checkpoint_start_offsets()

    async def note(self) -> None:
        assert self.node is not None
        partition = self.partition()
        if partition is not None:
            await partition.flush()
        await self.node.log_manager.checkpoint()

    async def create(self) -> None:
        assert self.node is not None
        await self.commit(creation(self.node.image, self.node.id))
        self.life = Life()

    async def recreate(self) -> None:
        assert self.node is not None
        self.is_elsewhere = False
        if NAME in self.node.image.topics:
            await delete_topic(self.node.metadata, NAME)
        if self.random.random() < 0.5:
            # Its files are removed by then.
            await asyncio.gather(*self.node.background, return_exceptions=True)
        await self.create()

    async def move(self) -> None:
        """To another broker; or back from it, where nothing of it is left."""
        assert self.node is not None
        await self.commit(self.moved(self.node.image))
        self.life = None if self.is_elsewhere else Life()

    async def recreate_while_down(self) -> None:
        store, image = await self.store()
        if NAME in image.topics:
            await store.commit(decide_deletion(image, NAME))
        self.is_elsewhere, self.life = False, None
        if self.random.random() < 0.7:
            await store.commit(creation(Image.of(await store.scan("")), 1))
            self.life = Life()
        await store.close()

    async def move_while_down(self) -> None:
        """Its log is there until the broker starts: it may come back to it."""
        store, image = await self.store()
        if NAME in image.topics:
            if self.is_elsewhere:
                self.life = self.life or Life()
            await store.commit(self.moved(image))
        await store.close()

    # The means -----------------------------------------------------------------------------

    async def store(self) -> tuple[SqliteStore, Image]:
        store = await SqliteStore.open(self.folder / "metadata.sqlite", "someone")
        return store, Image.of(await store.scan(""))

    def moved(self, image: Image) -> list[Op]:
        self.is_elsewhere = not self.is_elsewhere
        to = ELSEWHERE if self.is_elsewhere else 1
        return [change_assignment(image.topics[NAME], {0: [to]})]

    async def commit(self, ops: list[Op]) -> None:
        assert self.node is not None
        await self.node.metadata.store.commit(ops)
        await self.node.metadata.caught_up()

    def partition(self) -> Partition | None:
        assert self.node is not None
        return self.node.partitions.get(NAME, 0)

    def now(self) -> int:
        assert self.node is not None
        return self.node.now_ms()

    # What must be so -----------------------------------------------------------------------

    def check(self) -> None:
        assert self.node is not None
        partition, life = self.partition(), self.life
        if life is None:
            assert partition is None
            return
        assert partition is not None
        log = partition.log
        assert partition.topic_id == self.node.image.topics[NAME].id
        assert (log.start_offset, log.end_offset) == (life.start, len(life.entries))
        assert partition.high_watermark == len(life.entries)
        seen: dict[str, str] = {}
        for record in records(log):
            assert record.key is not None
            if record.value is None:
                seen.pop(record.key.decode(), None)
            else:
                seen[record.key.decode()] = record.value.decode()
        assert seen == life.view()
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS, START_OFFSETS, CLEANER_OFFSETS):
            noted = self.node.folder.read_checkpoint(name).get((NAME, 0), 0)
            assert noted <= len(life.entries), name
        epochs = log.directory / EPOCHS_FILE
        if epochs.exists():
            starts = [int(words[1]) for words in decode_lines(epochs.read_bytes())]
            assert all(start <= len(life.entries) for start in starts)


def creation(image: Image, broker: int) -> list[Op]:
    """The topic on a broker that may have died since it registered."""
    if broker not in image.brokers:
        image.brokers[broker] = BrokerImage(broker, 1, [], None)
    new = NewTopic(NAME, assignment={0: [broker]}, configs=CONFIGS)
    return create_topic(
        image,
        new,
        topic_id=uuid.uuid4(),
        start=0,
        default_partitions=1,
        default_replication_factor=1,
    )[1]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_life_of_a_replica_has_its_own_records_and_no_others(
    tmp_path: Path, seed: int
) -> None:
    run = Run(tmp_path, seed)

    async def story() -> None:
        await run.start()
        try:
            for _ in range(STEPS):
                await run.step()
        finally:
            if run.node is not None:
                await run.stop()

    try:
        asyncio.run(story())
    except BaseException as problem:
        problem.add_note(f"seed {seed}: {', '.join(run.did)}")
        raise
