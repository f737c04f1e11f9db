"""What settings belong to, with Kafka's numbers (ConfigResource.Type)."""

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The type of a resource in DescribeConfigs and AlterConfigs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
