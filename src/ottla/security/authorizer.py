"""Who may do what: one Authorizer for a broker, one Access for each connection. Pure.

Rules kept here:
1. A super user may do everything. Others may do what the ACLs allow (`rules.py`); where no ACL is
   about a resource `allow.everyone.if.no.acl.found` decides.
2. An Access remembers what its client may do with each topic: the hot path is one look-up in
   `Access.topics` and one `&`. It is forgotten when the ACLs or the super users change; so an
   Access that a parked request holds is never out of date.
3. Without an authorizer everyone may do everything, and is asked in the same way: there is no
   branch.
4. `check` is for what a client asked for, and tells `on_denied`; `allows` and the bits are for
   filters and for what a reply says of the client, and tell nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final
from weakref import WeakSet

from ottla.security.acls import Acl
from ottla.security.operations import (
    ALL_BITS,
    CLUSTER_NAME,
    REFUSED,
    SUPPORTED,
    Operation,
    ResourceType,
)
from ottla.security.principal import ANONYMOUS, Principal
from ottla.security.rules import AclDecision, Rules
from ottla.wire.errors import KafkaError

MOST_REMEMBERED: Final = 10_000
"""Resources of a type that an Access remembers: a client may ask for any name."""
LONGEST_REMEMBERED: Final = 249
"""As long as a topic's name may be; what is longer is found out each time."""
READ: Final = 1 << Operation.READ
WRITE: Final = 1 << Operation.WRITE
DESCRIBE: Final = 1 << Operation.DESCRIBE
_SOME_NAME: Final = "hardcode"
"""The name that Kafka asks for first where any topic would do."""

Denied = Callable[["Access", Operation, ResourceType, str], None]


def _tell_nobody(_: Access, __: Operation, ___: ResourceType, ____: str) -> None:
    pass


class _Bits(dict[str, int]):
    """What a client may do with each resource of a type: index it, and it is found out."""

    __slots__ = ("_access", "_kind")

    def __init__(self, access: Access, kind: ResourceType) -> None:
        super().__init__()
        self._access = access
        self._kind = kind

    def __missing__(self, name: str) -> int:
        found = self._access.find_out(self._kind, name)
        if len(name) <= LONGEST_REMEMBERED:
            if len(self) >= MOST_REMEMBERED:
                self.clear()
            self[name] = found
        return found


class Access:
    """What the client of one connection may do."""

    __slots__ = (
        "__weakref__",
        "_authorizer",
        "_others",
        "host",
        "principal",
        "topics",
        "via_token",
    )

    def __init__(
        self,
        authorizer: Authorizer | None,
        principal: Principal,
        host: str,
        *,
        via_token: bool = False,
    ) -> None:
        """`via_token`: the client logged in with a delegation token."""
        self._authorizer = authorizer
        self.principal = principal
        self.host = host
        self.via_token = via_token
        self.topics = _Bits(self, ResourceType.TOPIC)
        self._others: dict[ResourceType, _Bits] = {}

    def find_out(self, kind: ResourceType, name: str) -> int:
        """The operations that the client may do, by the rules."""
        if self._authorizer is None:
            return ALL_BITS
        return self._authorizer.bits(self.principal, self.host, kind, name)

    def forget(self) -> None:
        """The rules have changed."""
        self.topics.clear()
        self._others.clear()

    @property
    def view(self) -> object:
        """Equal where two clients may do the same: what a kept answer belongs to."""
        if self._authorizer is None:
            return None
        return (self.principal, self.host, self._authorizer.version)

    @property
    def is_limited(self) -> bool:
        """False where there is no authorizer."""
        return self._authorizer is not None

    def bits(self, kind: ResourceType, name: str) -> int:
        """All operations that the client may do."""
        if kind is ResourceType.TOPIC:
            return self.topics[name]
        known = self._others.get(kind)
        if known is None:
            known = self._others[kind] = _Bits(self, kind)
        return known[name]

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        """What a reply says that the client may do: operations that make sense on the resource."""
        return self.bits(kind, name) & SUPPORTED[kind]

    def allows(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may; nothing is logged."""
        return bool(self.bits(kind, name) & (1 << operation))

    def may(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may do what it has asked for; a denial is logged."""
        if self.bits(kind, name) & (1 << operation):
            return True
        if self._authorizer is not None:
            self._authorizer.on_denied(self, operation, kind, name)
        return False

    def check(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Refuse what the client has asked for; raises KafkaError with the type's code."""
        if not self.may(operation, kind, name):
            raise KafkaError(REFUSED[kind])

    def sees_topic(self, name: str) -> bool:
        """Whether the client may describe a topic; nothing is logged."""
        return bool(self.topics[name] & DESCRIBE)

    def allows_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether the client may do it on some resource of the type."""
        if self.allows(operation, kind, _SOME_NAME):
            return True
        authorizer = self._authorizer
        return authorizer is not None and authorizer.rules.any_of_type(
            str(self.principal), self.host, operation, kind
        )


class Authorizer:
    """The ACLs and super users of a cluster, and what follows from them."""

    __slots__ = ("_accesses", "_default", "_super_users", "on_denied", "rules", "version")

    def __init__(
        self,
        super_users: Collection[str] = (),
        *,
        allow_everyone: bool = False,
        rules: Rules | None = None,
        on_denied: Denied = _tell_nobody,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._default = ALL_BITS if allow_everyone else 0
        self.rules = Rules() if rules is None else rules
        self.version = 0
        self.on_denied = on_denied
        self._accesses: WeakSet[Access] = WeakSet()

    def access(self, principal: Principal, host: str, *, via_token: bool = False) -> Access:
        """What a client may do, for as long as its connection lasts."""
        access = Access(self, principal, host, via_token=via_token)
        self._accesses.add(access)
        return access

    def changed(self, added: Iterable[Acl], removed: Iterable[Acl]) -> None:
        """The cluster has other ACLs now."""
        self._renew(self.rules.changed(added, removed))

    def configured(self, super_users: Collection[str], *, allow_everyone: bool) -> None:
        """The settings are these now."""
        self._super_users = frozenset(super_users)
        self._default = ALL_BITS if allow_everyone else 0
        self._renew(self.rules)

    def _renew(self, rules: Rules) -> None:
        self.rules = rules
        self.version += 1
        for access in self._accesses:
            access.forget()

    def bits(self, principal: Principal, host: str, kind: ResourceType, name: str) -> int:
        """The operations that a client may do."""
        text = str(principal)
        if text in self._super_users:
            return ALL_BITS
        return self.rules.bits(text, host, kind, name, self._default)

    def explain(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        kind: ResourceType,
        name: str,
    ) -> tuple[bool, str]:
        """Whether a client may, and the rule that decides, as Kafka's audit lines name it."""
        text = str(principal)
        if text in self._super_users:
            return True, "SuperUser"
        decision: AclDecision = self.rules.explain(text, host, operation, kind, name)
        if decision.acl is not None:
            return decision.allowed, f"MatchingAcl(acl={decision.acl})"
        allowed = bool(self._default) and not decision.has_acls
        return allowed, "DefaultAllow" if allowed else "DefaultDeny"


EVERYTHING: Final = Access(None, ANONYMOUS, "")
"""What everyone may do where there is no authorizer; shared by all who are not logged in."""
