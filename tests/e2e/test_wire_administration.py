"""Requests of administrators for what a broker of one folder, without quotas and users, has not."""

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from testkit.raw import Connection
from tests.e2e.conftest import Topics


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_can_only_be_moved_to_where_it_is(
    connection: Connection, new_topic: Topics, version: int
) -> None:
    topic = new_topic()
    dirs = connection.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
    own = dirs.results[0].log_dir

    def moved(folder: str, partition: int) -> int:
        asked = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=folder, topics=[asked])])
        answer = connection.ask(request, AlterReplicaLogDirsResponse, version)
        return answer.results[0].partitions[0].error_code

    assert moved(own, 0) == ErrorCode.NONE
    assert moved("/somewhere/else", 0) == ErrorCode.LOG_DIR_NOT_FOUND
    assert moved(own, 99) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1])
def test_nobody_has_a_quota(connection: Connection, version: int) -> None:
    everyone = DescribeClientQuotasRequest(components=[ComponentData(entity_type="user")])
    answer = connection.ask(everyone, DescribeClientQuotasResponse, version)
    assert (answer.error_code, answer.error_message, answer.entries) == (0, None, [])


def quotas_of(kind: str, match_type: int = 2, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([quotas_of("user"), quotas_of("client-id", 0, "x")], ErrorCode.NONE),
        ([quotas_of("ip", 0, "127.0.0.1")], ErrorCode.NONE),
        ([quotas_of("shoe-size", 9)], ErrorCode.UNSUPPORTED_VERSION),
        ([quotas_of("")], ErrorCode.INVALID_REQUEST),
        ([quotas_of("user", 9)], ErrorCode.INVALID_REQUEST),
        ([quotas_of("user", 0)], ErrorCode.INVALID_REQUEST),
        ([quotas_of("user", 1, "x")], ErrorCode.INVALID_REQUEST),
        ([quotas_of("user", 2, "x")], ErrorCode.INVALID_REQUEST),
        ([quotas_of("user"), quotas_of("user")], ErrorCode.INVALID_REQUEST),
        ([quotas_of("user"), quotas_of("ip")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_quotas_that_nobody_can_have_are_refused(
    connection: Connection, components: list[ComponentData], code: ErrorCode
) -> None:
    request = DescribeClientQuotasRequest(components=components)
    answer = connection.ask(request, DescribeClientQuotasResponse, 1)
    assert answer.error_code == code
    assert answer.entries == ([] if code == ErrorCode.NONE else None)


def test_nobody_has_credentials(connection: Connection) -> None:
    def ask(*users: str) -> DescribeUserScramCredentialsResponse:
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in users])
        return connection.ask(request, DescribeUserScramCredentialsResponse, 0)

    assert (ask().error_code, ask().results) == (0, [])
    absent, twice = ask("alice", "bob", "bob").results
    assert (absent.user, absent.error_code) == ("alice", ErrorCode.RESOURCE_NOT_FOUND)
    assert (twice.user, twice.error_code) == ("bob", ErrorCode.DUPLICATE_RESOURCE)
    assert (
        absent.error_message == "Attempt to describe a user credential that does not exist: alice"
    )


def test_controllers_are_not_to_be_asked_for_here(connection: Connection) -> None:
    def ask(kind: int) -> tuple[int, str | None]:
        answer = connection.ask(
            DescribeClusterRequest(endpoint_type=kind), DescribeClusterResponse, 1
        )
        return answer.error_code, answer.error_message

    assert ask(7) == (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7")
    code, why = ask(2)
    assert code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert why is not None
    assert why.endswith("we wanted an endpoint of type CONTROLLER")


def test_a_leader_that_is_the_preferred_one_needs_no_election(
    connection: Connection, new_topic: Topics
) -> None:
    wanted = TopicPartitions(topic=new_topic(), partitions=[0])
    request = ElectLeadersRequest(election_type=0, topic_partitions=[wanted])
    answer = connection.ask(request, ElectLeadersResponse, 2)
    (result,) = answer.replica_election_results[0].partition_result
    assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED
    assert result.error_message == "Leader election not needed for topic partition."


def quorum(connection: Connection, version: int, *asked: tuple[str, int]) -> DescribeQuorumResponse:
    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=name,
                partitions=[DescribeQuorumRequestPartitionData(partition_index=index)],
            )
            for name, index in asked
        ]
    )
    return connection.ask(request, DescribeQuorumResponse, version)


@pytest.mark.parametrize("version", range(3))
def test_the_controller_is_the_leader_of_the_metadata(connection: Connection, version: int) -> None:
    answer = quorum(connection, version, ("__cluster_metadata", 0))
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert (answer.error_code, partition.error_code) == (0, 0)
    assert [each.replica_id for each in partition.current_voters] == [partition.leader_id]
    assert partition.leader_epoch >= 0
    (voter,) = partition.current_voters
    assert voter.log_end_offset == partition.high_watermark > 0
    assert [each.node_id for each in answer.nodes] == ([partition.leader_id] * (version == 2))


@pytest.mark.parametrize(
    "asked",
    [
        [("__cluster_metadata", 1)],
        [("orders", 0)],
        [("__cluster_metadata", 0), ("__cluster_metadata", 0)],
    ],
)
def test_only_the_metadata_has_a_quorum(
    connection: Connection, asked: list[tuple[str, int]]
) -> None:
    answer = quorum(connection, 2, *asked)
    codes = [each.error_code for topic in answer.topics for each in topic.partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(asked)


def unregister(connection: Connection, broker: int) -> int:
    request = UnregisterBrokerRequest(broker_id=broker)
    return connection.ask(request, UnregisterBrokerResponse, 0).error_code


def test_only_brokers_that_are_gone_can_be_unregistered(connection: Connection) -> None:
    assert unregister(connection, 1) == ErrorCode.INVALID_REQUEST
    assert unregister(connection, 4711) == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert unregister(connection, -1) == ErrorCode.BROKER_ID_NOT_REGISTERED
