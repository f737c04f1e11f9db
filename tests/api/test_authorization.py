"""Every API asks for what it declares and for nothing else, and a refusal changes nothing.

One broker has a topic, a group with members and an open transaction. Every API is asked by a client
that may do nothing, or only what a case grants it.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.api import load_all
from ottla.api.authorization import Pair, Public
from ottla.api.registry import ENDPOINTS, Request
from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.delegation_tokens import keep_token
from ottla.broker.scheduling.waiting import settled
from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from ottla.later import Later
from ottla.metadata.documents import PRODUCER_IDS
from ottla.security.authorizer import Access, Authorizer
from ottla.security.operations import Operation, ResourceType
from ottla.security.principal import Principal
from ottla.security.tokens import DelegationToken
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.message import Part
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.nodes import running, topic, write

from .authorization_cases import GROUP, NAME, TXN, Case, cases
from .share_authorization_cases import SHARE_GROUP, share_cases
from .streams_authorization_cases import JOIN, JOINED_EPOCH, MAY_JOIN, STREAMS_GROUP, streams_cases

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "delegation.token.secret.key": "secret",
    "authorizer.class.name": STANDARD_AUTHORIZER,
}
ALICE = Principal("User", "alice")


class _Asked(int):
    """Bits that note for which operation they are looked at."""

    kind: ResourceType
    notes: set[Pair]

    def __and__(self, mask: int) -> int:
        if mask.bit_count() == 1:
            self.notes.add((Operation(mask.bit_length() - 1), self.kind))
        return int(self) & mask


class _Recording(Access):
    """May do what is granted, and notes what it is asked for."""

    __slots__ = ("asked", "granted")

    def __init__(self, granted: Any = ()) -> None:
        super().__init__(Authorizer(), Principal("User", "eve"), "10.0.0.1")
        self.granted = set(granted)
        self.asked: set[Pair] = set()

    def find_out(self, kind: ResourceType, name: str) -> int:
        bits = sum(1 << operation for operation, on in self.granted if on is kind)
        found = _Asked(bits)
        found.kind = kind
        found.notes = self.asked
        return found


async def _ask(node: BrokerServer, case: Case, access: Access | None = None) -> Any:
    """The reply, decoded; without an access everything is allowed."""
    body = memoryview(bytearray(codec.encode(case.message, case.version)))
    request = Request(node, case.key, case.version, 1, "c", "10.0.0.1", "PLAINTEXT", 1)
    if access is not None:
        request = Request(node, case.key, case.version, 1, "c", "10.0.0.1", "PLAINTEXT", 1, access)
    outcome: Any = ENDPOINTS[case.key].handle(request, body, 0)
    if isinstance(outcome, Later):
        outcome = await settled(outcome)
    elif outcome is not None and not isinstance(outcome, tuple | list):
        outcome = await outcome
    kind = type(case.message)
    response = getattr(sys.modules[kind.__module__], kind.__name__[: -len("Request")] + "Response")
    parts = b"".join(part for part in outcome if isinstance(part, bytes))
    return codec.decode(response, case.version, memoryview(parts))


def _errors(part: Part) -> Iterator[int]:
    for field in part.FIELDS:
        value = getattr(part, field.name)
        if field.name.endswith("error_code"):
            yield value
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Part):
                yield from _errors(each)


async def _state(node: BrokerServer) -> tuple[Any, ...]:
    """Everything that a request could have changed; blocks of producer ids come in advance."""
    ends = {str(partition): partition.log.end_offset for partition in node.partitions}
    starts = {str(partition): partition.log.start_offset for partition in node.partitions}
    stored = [each for each in await node.metadata.store.scan("") if each.key != PRODUCER_IDS]
    return stored, ends, starts, len(node.fetch_sessions)


async def _prepared(node: BrokerServer) -> None:
    """A topic with records, a consumer group that reads it, and a transaction that writes to it."""
    write(await topic(node, NAME), 3)
    await node.groups.ensure_topic()
    await node.transactions.ensure_topic()
    join = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[NAME],
        topic_partitions=[],
    )
    joined = await _ask(node, Case(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, join, None))
    assert not joined.error_code
    share = ShareGroupHeartbeatRequest(
        group_id=SHARE_GROUP, member_id="m", subscribed_topic_names=[NAME]
    )
    joined = await _ask(node, Case(ApiKey.SHARE_GROUP_HEARTBEAT, 1, share, None))
    assert not joined.error_code
    assert joined.assignment.topic_partitions
    streams = await _ask(
        node, Case(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, JOIN, None), _Recording(MAY_JOIN)
    )
    assert (streams.error_code, streams.member_epoch) == (0, JOINED_EPOCH)
    begin = InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=60_000)
    begun = await _ask(node, Case(ApiKey.INIT_PRODUCER_ID, 4, begin, None))
    assert not begun.error_code
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TXN,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=NAME, partitions=[0])],
    )
    await keep_token(node.metadata, DelegationToken("id", ALICE, ALICE, (), 0, 2**62, 2**62))
    added = await _ask(node, Case(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add, None))
    assert set(_errors(added)) == {0}


def test_every_declared_check_is_asked_and_a_refusal_changes_nothing(tmp_path: Path) -> None:
    load_all()

    async def live() -> dict[ApiKey, set[Pair]]:
        asked: dict[ApiKey, set[Pair]] = {}
        async with running(tmp_path, SETTINGS) as node:
            await _prepared(node)
            before = await _state(node)
            topic_id = node.image.topics[NAME].id
            for case in [*cases(topic_id), *share_cases(topic_id), *streams_cases()]:
                access = _Recording(case.granted)
                reply = await _ask(node, case, access)
                if case.error is not None:
                    assert case.error in set(_errors(reply)), (case, reply)
                after = await _state(node)
                assert after == before, (case, [a for a in after[0] if a not in before[0]])
                asked.setdefault(case.key, set()).update(access.asked)
        return asked

    asked = asyncio.run(live())
    for endpoint in ENDPOINTS.values():
        if not isinstance(endpoint.authorize, Public):
            assert asked.get(endpoint.key) == set(endpoint.authorize.pairs), endpoint.name


def test_lists_leave_out_what_a_client_may_not_see(tmp_path: Path) -> None:
    load_all()

    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            await _prepared(node)
            found = {case.key: case for case in cases(node.image.topics[NAME].id)}
            nobody = _Recording()
            listed = await _ask(node, found[ApiKey.LIST_GROUPS])
            assert sorted(group.group_id for group in listed.groups) == [
                STREAMS_GROUP,
                GROUP,
                SHARE_GROUP,
            ]
            assert not (await _ask(node, found[ApiKey.LIST_GROUPS], nobody)).groups
            listed = await _ask(node, found[ApiKey.LIST_TRANSACTIONS])
            assert [each.transactional_id for each in listed.transaction_states] == [TXN]
            hidden = await _ask(node, found[ApiKey.LIST_TRANSACTIONS], nobody)
            assert not hidden.transaction_states
            everything = next(
                case
                for case in cases(node.image.topics[NAME].id)
                if case.key is ApiKey.METADATA and case.error is None
            )
            seen = await _ask(node, everything)
            assert NAME in {each.name for each in seen.topics}
            assert seen.cluster_authorized_operations > 0
            unseen = await _ask(node, everything, nobody)
            assert not unseen.topics
            assert unseen.cluster_authorized_operations == 0

    asyncio.run(live())


def test_a_fetch_session_belongs_to_who_began_it(tmp_path: Path) -> None:
    load_all()
    read = [(Operation.READ, ResourceType.TOPIC)]

    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            await _prepared(node)
            case = next(
                case
                for case in cases(node.image.topics[NAME].id)
                if case.key is ApiKey.FETCH and case.version == 12
            )
            message: Any = case.message
            message.topics[0].partitions[0].fetch_offset = 3  # where the log ends
            message.session_id = message.session_epoch = 0
            alice, eve = _Recording(read), _Recording(read)
            alice.principal = Principal("User", "alice")
            begun = await _ask(node, case, alice)
            assert begun.session_id
            message.session_id, message.session_epoch, message.topics = begun.session_id, 1, []
            stolen = await _ask(node, case, eve)
            assert stolen.error_code == 70  # FETCH_SESSION_ID_NOT_FOUND
            assert not (await _ask(node, case, alice)).error_code
            message.session_epoch = -1  # the end of the session
            await _ask(node, case, eve)
            assert len(node.fetch_sessions) == 1

    asyncio.run(live())
