"""UnregisterBroker, version 0: a broker id that is gone is taken off the cluster.

Rules kept here:
1. A registration ends with its broker's session: of a broker that is gone nothing is registered.
   An id that topics or dynamic settings still name may be unregistered all the same, any number of
   times: `kafka-cluster unregister` finds what it wants to be so. As in Kafka topics keep naming
   the id until they are reassigned, and its settings wait for it.
2. Unlike in Kafka a broker that runs is refused: it would serve clients, but none would find it.
   It is stopped first.
3. Any other id is BROKER_ID_NOT_REGISTERED.
"""

from ottla.api.authorization import OnCluster
from ottla.api.registry import Request, api
from ottla.metadata.image import Image
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


@api(
    ApiKey.UNREGISTER_BROKER,
    0,
    0,
    UnregisterBrokerRequest,
    authorize=OnCluster(Operation.ALTER),
)
def unregister_broker(request: Request, asked: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Say whether the broker is gone."""
    broker, image = asked.broker_id, request.node.image
    if broker in image.brokers:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Broker {broker} is running. Stop it first: its registration ends then.",
        )
    if not _is_named(image, broker):
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {broker} is not currently registered",
        )
    return UnregisterBrokerResponse()


def _is_named(image: Image, broker: int) -> bool:
    """Whether dynamic settings or replicas of a topic are a broker's."""
    return broker in image.broker_configs or any(
        broker in replicas for topic in image.topics.values() for replicas in topic.assignment
    )
