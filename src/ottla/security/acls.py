"""ACLs: what one says, which filter matches it, and what is wrong with a new one. Pure.

Refusals have Kafka's codes and texts (AclControlManager, AclApis).
"""

import hashlib
from typing import NamedTuple, TypeVar

import msgspec

from ottla.security.operations import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.wire.errors import ErrorCode, KafkaError

WILDCARD = "*"
EVERY_USER = "User:*"

E = TypeVar("E", ResourceType, PatternType, Operation, Permission)


class Acl(NamedTuple):
    """One binding: a principal may, or may not, do something from a host."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def key(self) -> str:
        """What identifies it in a store: one binding has one key."""
        canonical = msgspec.json.encode(self)
        return hashlib.sha256(canonical).hexdigest()

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name}) on "
            f"{self.resource_type.name}:{self.pattern_type.name}:{self.name}"
        )


class AclFilter(NamedTuple):
    """Which ACLs are asked for; None and ANY match everything."""

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def check(self) -> None:
        """Refuse what no ACL can match because it is not known; raises KafkaError."""
        kinds, patterns = list(ResourceType), list(PatternType)
        if self.resource_type not in kinds[1:] or self.pattern_type not in patterns[1:]:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
        if self.operation not in list(Operation)[1:] or self.permission not in list(Permission)[1:]:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL is one of those asked for."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        kind = self.pattern_type
        if kind not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if kind != PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)


def new_acl(
    resource_type: int,
    name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Acl:
    """A checked ACL; raises KafkaError with what Kafka says of a bad one."""
    kind = _known(ResourceType, resource_type)
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise _invalid("Invalid empty resource name")
    if kind <= ResourceType.ANY:
        raise _invalid(f"Invalid resourceType {kind.name}")
    pattern = _known(PatternType, pattern_type)
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {pattern.name}")
    wanted = _known(Operation, operation)
    if wanted <= Operation.ANY:
        raise _invalid(f"Invalid operation {wanted.name}")
    rule = _known(Permission, permission)
    if rule not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {rule.name}")
    if ":" not in principal:
        raise _invalid(
            f"Could not parse principal from `{principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    return Acl(kind, name, pattern, principal, host, wanted, rule)


def _known(kind: type[E], value: int) -> E:
    """The member with this number; an unknown number is UNKNOWN, as in Kafka."""
    try:
        return kind(value)
    except ValueError:
        return kind(0)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
