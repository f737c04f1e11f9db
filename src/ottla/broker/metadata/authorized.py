"""What a client may do, as the bit fields of Metadata and DescribeCluster (KIP-430).

Without an authorizer every client may do everything that makes sense for a resource.
"""

from enum import IntEnum


class Operation(IntEnum):
    """Kafka's AclOperation numbers: each is a bit's place."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def bits(*operations: Operation) -> int:
    """The bit field of some operations."""
    return sum(1 << operation for operation in operations)


NOT_TOLD = -(2**31)
"""What a reply has where the client did not ask."""

ON_A_TOPIC = bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
ON_THE_CLUSTER = bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
ON_A_GROUP = bits(
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
