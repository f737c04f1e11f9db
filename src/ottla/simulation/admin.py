"""The administrator of a run: creates topics, moves replicas, elects leaders, deletes records.

Rules kept here:
1. What is asked once may be refused or get no answer: the nemesis asks again another time. Only
   what a run needs to begin is asked until it is done.
2. The checker learns what may be deleted before the request is sent.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from ottla.simulation.checker import Checker
from ottla.simulation.client import NoAnswer, SimulatedClient, TopicPartition
from ottla.simulation.process import SimulatedProcess
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


class Admin:
    """Changes topics."""

    def __init__(self, client: SimulatedClient, checker: Checker) -> None:
        self._client = client
        self._checker = checker
        self.process = SimulatedProcess("admin", "host-admin")
        self.topics: dict[str, int] = {}
        """How many partitions each has."""
        self.changing = False
        """Whether a topic is being created again, which continues when the faults end."""
        self._made: dict[str, tuple[int, int, dict[str, str]]] = {}

    async def create(
        self, name: str, partitions: int, factor: int, configs: dict[str, str]
    ) -> UUID:
        """Create a topic, and be sure that it is there."""
        client = self._client
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            configs=[CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
        )
        while True:
            try:
                request = CreateTopicsRequest(topics=[topic], timeout_ms=3000)
                answer = await client.ask(client.any_broker(), request, CreateTopicsResponse)
                code = answer.topics[0].error_code
                if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    client.topics.pop(name, None)
                    await client.learn([name])
                    if name in client.topics:
                        self.topics[name] = partitions
                        self._made[name] = partitions, factor, configs
                        return client.topics[name]
            except NoAnswer:
                pass
            await client.pause()

    async def recreate(self, chance: Random) -> None:
        """Delete a topic, and create another one of its name."""
        client = self._client
        name = chance.choice(list(self.topics))
        if self.changing:
            return
        self.changing = True
        self._checker.recreated.add(name)
        client.world.say(f"admin: recreate {name}")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=3000)
        while True:
            try:
                answer = await client.ask(client.any_broker(), request, DeleteTopicsResponse)
                code = answer.responses[0].error_code
                if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    break
            except NoAnswer:
                pass
            await client.pause()
        partitions, factor, configs = self._made[name]
        await self.create(name, partitions, factor, configs)
        self.changing = False

    def _some_partition(self) -> tuple[str, int]:
        chance = self._client.chance
        name = chance.choice(list(self.topics))
        return name, chance.randrange(self.topics[name])

    async def elect(self) -> None:
        """Give leadership to the preferred replicas."""
        try:
            await self._client.ask(
                self._client.any_broker(),
                ElectLeadersRequest(topic_partitions=None, timeout_ms=2000),
                ElectLeadersResponse,
            )
        except NoAnswer:
            pass

    async def move(self) -> None:
        """Move a partition to other brokers, or cancel such a move."""
        client = self._client
        name, index = self._some_partition()
        brokers = list(client.cluster.hosts)
        replicas: list[int] | None = client.chance.sample(brokers, min(len(brokers), 3))
        if client.chance.random() < 0.3:
            replicas = None
        elif len(brokers) > 2 and client.chance.random() < 0.5:
            assert replicas is not None
            replicas = replicas[:2]
        wanted = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=2000, topics=[ReassignableTopic(name=name, partitions=[wanted])]
        )
        client.world.say(f"admin: {name}-{index} to {replicas}")
        try:
            await client.ask(client.any_broker(), request, AlterPartitionReassignmentsResponse)
        except NoAnswer:
            pass

    async def delete_records(self) -> None:
        """Delete the oldest records of a partition."""
        client = self._client
        name, index = self._some_partition()
        topic_id = client.topics.get(name)
        if topic_id is None:
            return
        where = TopicPartition(name, topic_id, index)
        acked = self._checker.acked.get(where)
        if not acked:
            return
        offset = client.chance.randint(0, max(acked))
        deletable = self._checker.deletable
        deletable[where] = max(deletable.get(where, 0), offset)
        wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[wanted])], timeout_ms=2000
        )
        client.world.say(f"admin: delete {where} below {offset}")
        try:
            broker = await client.leader(name, index)
            await client.ask(broker, request, DeleteRecordsResponse)
        except NoAnswer:
            client.forget_leader(name, index)
