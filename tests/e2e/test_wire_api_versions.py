"""ApiVersions: the first thing that most clients ask, and the one that must always be answered."""

import pytest

from ottla.wire import codec
from ottla.wire.apis import KAFKA_VERSIONS, ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.headers import write_request_header
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from testkit.raw import Connection, frame

TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""Apache Kafka advertises these only with a plug-in that receives metrics."""
OF_KRAFT = (80, 81)
"""AddRaftVoter and RemoveRaftVoter: there is no quorum of voters here."""


def api_versions(connection: Connection, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")
    return connection.ask(request, ApiVersionsResponse, version)


def ranges(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_answered(connection: Connection, version: int) -> None:
    answer = api_versions(connection, version)
    assert answer.error_code == 0
    assert ranges(answer)[ApiKey.API_VERSIONS] == (0, 4)


def test_the_list_is_that_of_apache_kafka_key_for_key(connection: Connection) -> None:
    found = ranges(api_versions(connection, 4))
    wanted = {key: each for key, each in KAFKA_VERSIONS.items() if key not in TELEMETRY}
    assert {key: each for key, each in found.items() if key not in OF_KRAFT} == wanted


def test_nothing_is_advertised_beyond_apache_kafka(connection: Connection) -> None:
    known = {int(key): versions for key, versions in KAFKA_VERSIONS.items()}
    for key, (first, last) in ranges(api_versions(connection, 4)).items():
        if key in known:
            assert known[key][0] <= first <= last <= known[key][1], key


def test_no_telemetry_is_offered(connection: Connection) -> None:
    assert not {71, 72} & set(ranges(api_versions(connection, 4)))


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_is_told_the_known_ones(connection: Connection, version: int) -> None:
    header = write_request_header(ApiKey.API_VERSIONS, version, 77, "tests")
    connection.send_bytes(frame(header + b"\x06tests\x041.0\x00"))
    correlation_id, answer = connection.receive(ApiVersionsResponse, 0)
    assert correlation_id == 77
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ranges(answer) == {ApiKey.API_VERSIONS: (0, 4)}
    assert api_versions(connection, 3).error_code == 0


@pytest.mark.parametrize("name", ["", "-tests", "te sts", "tests-"])
def test_an_odd_software_name_is_refused(connection: Connection, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    answer = connection.ask(request, ApiVersionsResponse, 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert api_versions(connection, 3).error_code == 0


def test_version_3_leaves_out_features_that_may_be_absent(connection: Connection) -> None:
    older = {feature.name: feature for feature in api_versions(connection, 3).supported_features}
    newer = {feature.name: feature for feature in api_versions(connection, 4).supported_features}
    assert all(feature.min_version > 0 for feature in older.values())
    assert older.keys() == {name for name, feature in newer.items() if feature.min_version > 0}


@pytest.mark.parametrize("version", [3, 4])
def test_tools_are_told_the_version_of_kafka(connection: Connection, version: int) -> None:
    answer = api_versions(connection, version)
    supported = {feature.name: feature for feature in answer.supported_features}
    finalized = {feature.name: feature for feature in answer.finalized_features}
    least, most = (
        supported["metadata.version"].min_version,
        supported["metadata.version"].max_version,
    )
    assert (least, most) == (7, 30), "3.3-IV3 to 4.3-IV0"
    assert finalized["metadata.version"].max_version_level == 30
    assert finalized["group.version"].max_version_level == 1
    assert finalized["transaction.version"].max_version_level == 2


def test_finalized_features_lie_within_the_supported_ones(connection: Connection) -> None:
    answer = api_versions(connection, 4)
    supported = {feature.name: feature for feature in answer.supported_features}
    for feature in answer.finalized_features:
        assert feature.max_version_level <= supported[feature.name].max_version
    assert answer.finalized_features_epoch >= (0 if answer.finalized_features else -1)


def test_the_reply_has_the_short_header_in_flexible_versions(connection: Connection) -> None:
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")
    connection.send(request, 3)
    reply = connection.receive_frame()
    answer, end = codec.decode_prefix(ApiVersionsResponse, 3, reply, 4)
    assert end == len(reply)
    assert answer.error_code == 0
