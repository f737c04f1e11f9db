"""One of the two brokers: it is prepared by a super user, and asked by the scenarios' users."""

import sys
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from compat.permissions.scenarios import MARK, Scenario
from ottla.wire.message import Message, Part
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from testkit.batches import values
from testkit.raw import ClosedError, Connection
from testkit.waiting import until
from tests.api.authorization_cases import GROUP, NAME, TXN
from tests.api.share_authorization_cases import SHARE_GROUP

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
TOGETHER = 50
"""How many topics are made by one request."""
SECONDS = 120.0
CLOSED = "the broker closed the connection"
NO_REPLY = "no reply"
REPLY_SECONDS = 10.0
MASKED = {
    *("throttle_time_ms", "host", "port", "cluster_id", "node_endpoints", "log_dir"),
    *("total_bytes", "usable_bytes", "partition_size", "hmac", "token_id"),
    *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "timestamp"),
    *("transaction_start_time_ms", "last_timestamp", "log_append_time_ms"),
}
SIGN_ONLY = {"producer_id", "session_id", "acquisition_lock_timeout_ms"}
NAMED = ("name", "topic", "topic_name", "group_id", "group", "transactional_id")


class Side:
    """A running broker."""

    def __init__(self, name: str, bootstrap: str, secure: str) -> None:
        self.name = name
        self._secure = secure
        self._admin = Connection(bootstrap, SECONDS)
        self._ids: dict[UUID, str] = {}

    def close(self) -> None:
        """End the connection of the super user."""
        self._admin.close()

    def grant(self, scenarios: Sequence[Scenario]) -> None:
        """Make all ACLs, and wait until the broker knows them."""
        acls = [acl for scenario in scenarios for acl in scenario.acls()]
        answer = self._admin.ask(CreateAclsRequest(creations=acls), CreateAclsResponse, 3)
        assert not any(each.error_code for each in answer.results), answer
        every = DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip

        def are_known() -> bool:
            found = self._admin.ask(every, DescribeAclsResponse, 3)
            return sum(len(each.acls) for each in found.resources) == len(acls)

        until(are_known, f"{self.name} knows the ACLs", SECONDS)

    def find_coordinators(self) -> None:
        """Have the coordinators' topics made."""
        for kind, key in ((0, "any"), (1, "any"), (2, f"any:{MEMBER}:0")):
            self._until_done(
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]),
                FindCoordinatorResponse, 6, lambda answer: answer.coordinators[0].error_code,
            )  # fmt: skip

    def create_topics(self, scenarios: Sequence[Scenario]) -> None:
        """Make each scenario's topic."""
        names = [scenario.name(NAME) for scenario in scenarios]
        for at in range(0, len(names), TOGETHER):
            part = names[at : at + TOGETHER]
            creating = CreateTopicsRequest(
                topics=[CreatableTopic(name=each, num_partitions=1, replication_factor=1)
                        for each in part],
                timeout_ms=60_000,
            )  # fmt: skip
            made = self._admin.ask(creating, CreateTopicsResponse, 7)
            assert not any(each.error_code for each in made.topics), made
            asking = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in part])

            def are_led(asking: MetadataRequest = asking) -> bool:
                found = self._admin.ask(asking, MetadataResponse, 12).topics
                self._ids |= {each.topic_id: each.name or "" for each in found if each.topic_id.int}
                return not any(
                    each.error_code or any(one.error_code for one in each.partitions)
                    for each in found
                )

            until(are_led, f"{self.name}: topics are led", SECONDS)

    def prepare(self, scenario: Scenario) -> UUID:
        """Records in the topic, members of the groups, and an open transaction; the topic's id."""
        name = scenario.name(NAME)
        producing = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name=name,
                    partition_data=[
                        PartitionProduceData(index=0, records=bytes(values(b"a", b"b", b"c")))
                    ],
                )
            ],
        )
        self._until_done(
            producing, ProduceResponse, 9,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )  # fmt: skip
        joining = ConsumerGroupHeartbeatRequest(
            group_id=scenario.name(GROUP), member_id=MEMBER, rebalance_timeout_ms=60_000,
            subscribed_topic_names=[name], topic_partitions=[],
        )  # fmt: skip
        self._until_done(joining, ConsumerGroupHeartbeatResponse, 1)
        sharing = ShareGroupHeartbeatRequest(
            group_id=scenario.name(SHARE_GROUP), member_id="m", subscribed_topic_names=[name]
        )
        self._until_done(sharing, ShareGroupHeartbeatResponse, 1)
        beginning = InitProducerIdRequest(
            transactional_id=scenario.name(TXN), transaction_timeout_ms=600_000
        )
        begun = self._until_done(beginning, InitProducerIdResponse, 4)
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=scenario.name(TXN),
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0])],
        )
        self._until_done(
            adding, AddPartitionsToTxnResponse, 3,
            lambda answer: answer.results_by_topic_v3_and_below[0]
            .results_by_partition[0].partition_error_code,
        )  # fmt: skip
        return next(found for found, of in self._ids.items() if of == name)

    def _until_done(
        self,
        request: Message,
        response: type[Any],
        version: int,
        error: Callable[[Any], int] = lambda answer: answer.error_code,
    ) -> Any:
        """Ask until there is no error: coordinators are still loading at first."""
        answer = None

        def is_done() -> bool:
            nonlocal answer
            answer = self._admin.ask(request, response, version)
            return not error(answer)

        try:
            until(is_done, "no error", SECONDS)
        except TimeoutError:
            raise AssertionError(f"{self.name}: {answer}") from None
        return answer

    def ask(self, scenario: Scenario, topic_id: UUID) -> Any:
        """The reply that the scenario's user gets, as plain values."""
        request = scenario.request(topic_id)
        kind = type(request)
        module = sys.modules[kind.__module__]
        response = getattr(module, kind.__name__.removesuffix("Request") + "Response")
        with Connection(self._secure, REPLY_SECONDS) as connection:
            shaken = connection.ask(
                SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse, 1
            )
            assert not shaken.error_code
            login = f"\0{scenario.user}\0{password(scenario.user)}".encode()
            known = connection.ask(
                SaslAuthenticateRequest(auth_bytes=login), SaslAuthenticateResponse, 2
            )
            assert not known.error_code, known
            try:
                return self._plain(connection.ask(request, response, scenario.version), scenario)
            except ClosedError:
                return CLOSED
            except TimeoutError:
                return NO_REPLY

    def _plain(self, value: Any, scenario: Scenario) -> Any:
        if isinstance(value, Part):
            shown = {}
            for name in value.__struct_fields__:
                field = getattr(value, name)
                if name in MASKED:
                    continue
                if name in SIGN_ONLY:
                    field = (field > 0) - (field < 0)
                elif name in ("configs", "records"):
                    # What they are is another check's; here counts whether they are there.
                    field = None if field is None else bool(field)
                shown[name] = self._plain(field, scenario)
            return shown
        if isinstance(value, list):
            items = [self._plain(each, scenario) for each in value]
            return sorted((each for each in items if not _of_others(each, scenario)), key=repr)
        if isinstance(value, UUID):
            return self._ids.get(value, "no id" if value.int == 0 else "an id")
        return value.hex() if isinstance(value, bytes) else value


def _of_others(item: Any, scenario: Scenario) -> bool:
    """Whether an item of a list is another scenario's, or internal."""
    if not isinstance(item, dict):
        return False
    for field in NAMED:
        name = item.get(field)
        if isinstance(name, str):
            own = name.partition(":")[0].endswith(f"{MARK}{scenario.number}")
            return name.startswith("__") or (MARK in name and not own)
    return False


def password(user: str) -> str:
    """What a user of the scenarios logs in with."""
    return f"of-{user}"
