"""Kafka's resource types, operations and pattern types, with its numbers, and bits of operations.

A set of operations is a bit field: operation n is bit n, as in the `authorized_operations` of
Metadata, DescribeCluster and DescribeGroups (KIP-430).
"""

from enum import IntEnum
from typing import Final

from ottla.wire.errors import ErrorCode


class ResourceType(IntEnum):
    """What an ACL protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in an ACL, or in a filter of ACLs, matches."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What a client wants to do; each is a bit's place."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """What an ACL does with what matches it."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def bits(*operations: Operation) -> int:
    """The bit field of some operations."""
    return sum(1 << operation for operation in operations)


NOT_ASKED: Final = -(2**31)
"""What a reply has where the client did not ask for its operations."""

SUPPORTED: Final[dict[ResourceType, int]] = {
    ResourceType.TOPIC: bits(
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: bits(
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: bits(
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: bits(
        Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT
    ),
    ResourceType.DELEGATION_TOKEN: bits(Operation.DESCRIBE),
    ResourceType.USER: bits(Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""Which operations make sense on a resource: what a reply says of them."""

ALL_BITS: Final = bits(*(each for each in Operation if each > Operation.ALL))
"""Every operation that can be asked for."""

IMPLIED: Final[dict[Operation, int]] = {
    Operation.ALL: ALL_BITS,
    Operation.READ: bits(Operation.DESCRIBE),
    Operation.WRITE: bits(Operation.DESCRIBE),
    Operation.DELETE: bits(Operation.DESCRIBE),
    Operation.ALTER: bits(Operation.DESCRIBE),
    Operation.ALTER_CONFIGS: bits(Operation.DESCRIBE_CONFIGS),
}
"""What an ALLOW of an operation allows too. A DENY denies its own operation only."""

CLUSTER_NAME: Final = "kafka-cluster"

REFUSED: Final[dict[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of a reply to a client that may not."""

_TYPE_NAMES: Final[dict[ResourceType, str]] = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


def type_name(kind: ResourceType) -> str:
    """The name of a resource type in Kafka's audit lines."""
    return _TYPE_NAMES.get(kind, kind.name)
