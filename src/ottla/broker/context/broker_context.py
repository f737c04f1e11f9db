"""The four facts that most rooms need, as one value."""

from typing import NamedTuple

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.clock import Clock
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.metadata.image import Image


class BrokerContext(NamedTuple):
    """What is true of one broker. It offers no service of another room."""

    broker: BrokerState
    config: DynamicConfig
    clock: Clock
    image: Image
