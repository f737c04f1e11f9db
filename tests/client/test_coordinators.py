from collections.abc import Iterator

import pytest

from ottla.client import Client, KafkaError
from ottla.client.coordinators import CoordinatorType, find_coordinator, find_coordinators
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

from .fake_broker import FakeBroker


def answer(request: Message) -> FindCoordinatorResponse:
    """Every key has a coordinator of its own, except `nobody's`."""
    assert isinstance(request, FindCoordinatorRequest)
    if not request.coordinator_keys:
        return FindCoordinatorResponse(node_id=len(request.key))
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=len(key), error_code=code if key == "nobody's" else 0)
            for key in request.coordinator_keys
        ]
    )


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({FindCoordinatorRequest: answer}) as broker:
        yield broker


@pytest.fixture
def client(broker: FakeBroker) -> Iterator[Client]:
    with Client(broker.address) as client:
        yield client


def test_many_keys_are_one_question(broker: FakeBroker, client: Client) -> None:
    found = find_coordinators(client, CoordinatorType.TRANSACTION, ["a", "bcd"])
    assert found == {"a": 1, "bcd": 3}
    (asked,) = broker.of(FindCoordinatorRequest)
    assert isinstance(asked, FindCoordinatorRequest)
    assert asked.key_type == CoordinatorType.TRANSACTION


def test_a_broker_that_takes_one_key_is_asked_for_each(broker: FakeBroker, client: Client) -> None:
    def versions(request: Message) -> ApiVersionsResponse:
        answer = broker.versions()
        for item in answer.api_keys:
            if item.api_key == FindCoordinatorRequest.API_KEY:
                item.max_version = 3
        return answer

    broker.answer(ApiVersionsRequest, versions)
    found = find_coordinators(client, CoordinatorType.GROUP, ["a", "bcd"])
    assert found == {"a": 1, "bcd": 3}
    assert len(broker.of(FindCoordinatorRequest)) == 2


def test_a_key_without_a_coordinator_is_named_and_may_be_tried_again(client: Client) -> None:
    with pytest.raises(KafkaError, match="group nobody's: COORDINATOR_NOT_AVAILABLE") as caught:
        find_coordinator(client, CoordinatorType.GROUP, "nobody's")
    assert caught.value.retriable
