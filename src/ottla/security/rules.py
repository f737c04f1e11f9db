"""All ACLs as an index that answers in microseconds, however many there are. Pure.

The rule is StandardAuthorizer's:
1. An ACL is about a resource if its type is equal and its name is: LITERAL and equal, LITERAL `*`,
   or PREFIXED and the beginning of the resource's name.
2. It is about a client if its principal is the client's or `User:*`, and its host is the client's
   address or `*`.
3. One DENY of the operation, or of ALL, denies. Otherwise one ALLOW of it, of ALL, or of an
   operation that implies it, allows. Otherwise it is denied if any ACL is about the resource, for
   whomever; if there is none, the default decides.

A `Rules` never changes: `changed` gives another one, which shares what did not change.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.security.acls import EVERY_USER, WILDCARD, Acl
from ottla.security.operations import (
    ALL_BITS,
    IMPLIED,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


class AclDecision(NamedTuple):
    """Whether something is allowed, and by which ACL; without one the default decided."""

    allowed: bool
    acl: Acl | None
    has_acls: bool
    """Whether any ACL is about the resource."""


class _Pattern:
    """The ACLs of one name and pattern type, compiled."""

    __slots__ = ("_by_client", "acls")

    def __init__(self, acls: frozenset[Acl]) -> None:
        self.acls = acls
        self._by_client: dict[tuple[str, str], tuple[int, int]] = {}
        for acl in acls:
            client = (acl.principal, acl.host)
            allowed, denied = self._by_client.get(client, (0, 0))
            if acl.permission is Permission.ALLOW:
                allowed |= (1 << acl.operation) | IMPLIED.get(acl.operation, 0)
            else:
                denied |= ALL_BITS if acl.operation is Operation.ALL else 1 << acl.operation
            self._by_client[client] = (allowed, denied)

    def bits(self, principal: str, host: str) -> tuple[int, int]:
        """What is allowed and denied to a client."""
        allowed = denied = 0
        find = self._by_client.get
        for client in (
            (principal, host),
            (principal, WILDCARD),
            (EVERY_USER, host),
            (EVERY_USER, WILDCARD),
        ):
            found = find(client)
            if found is not None:
                allowed |= found[0]
                denied |= found[1]
        return allowed, denied


class _OfType:
    """The patterns of one resource type."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self, literal: dict[str, _Pattern], prefixed: dict[str, _Pattern]) -> None:
        self.literal = literal
        self.prefixed = prefixed
        self.lengths = sorted({len(prefix) for prefix in prefixed})

    def about(self, name: str) -> Iterator[_Pattern]:
        """The patterns that match a name."""
        found = self.literal.get(name)
        if found is not None:
            yield found
        if name != WILDCARD:
            found = self.literal.get(WILDCARD)
            if found is not None:
                yield found
        longest = len(name)
        for length in self.lengths:
            if length > longest:
                break
            found = self.prefixed.get(name[:length])
            if found is not None:
                yield found

    def changed(self, added: Iterable[Acl], removed: Iterable[Acl]) -> "_OfType":
        kinds = {PatternType.LITERAL: dict(self.literal), PatternType.PREFIXED: dict(self.prefixed)}
        touched: dict[tuple[PatternType, str], set[Acl]] = {}
        for acls, is_added in ((removed, False), (added, True)):
            for acl in acls:
                place = (acl.pattern_type, acl.name)
                if place not in touched:
                    now = kinds[acl.pattern_type].get(acl.name)
                    touched[place] = set() if now is None else set(now.acls)
                (touched[place].add if is_added else touched[place].discard)(acl)
        for (kind, name), acls in touched.items():
            if acls:
                kinds[kind][name] = _Pattern(frozenset(acls))
            else:
                kinds[kind].pop(name, None)
        return _OfType(kinds[PatternType.LITERAL], kinds[PatternType.PREFIXED])


_NONE: Final = _OfType({}, {})


class Rules:
    """A set of ACLs."""

    __slots__ = ("_types",)

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._types: dict[ResourceType, _OfType] = {}
        self._add(acls, ())

    def _add(self, added: Iterable[Acl], removed: Iterable[Acl]) -> None:
        by_type: dict[ResourceType, tuple[list[Acl], list[Acl]]] = {}
        for place, acls in enumerate((added, removed)):
            for acl in acls:
                by_type.setdefault(acl.resource_type, ([], []))[place].append(acl)
        for kind, (new, gone) in by_type.items():
            self._types[kind] = self._types.get(kind, _NONE).changed(new, gone)

    def changed(self, added: Iterable[Acl], removed: Iterable[Acl]) -> "Rules":
        """The rules without some ACLs and with others."""
        rules = Rules()
        rules._types = dict(self._types)
        rules._add(added, removed)
        return rules

    def __iter__(self) -> Iterator[Acl]:
        for of_type in self._types.values():
            for patterns in (of_type.literal, of_type.prefixed):
                for pattern in patterns.values():
                    yield from pattern.acls

    def bits(self, principal: str, host: str, kind: ResourceType, name: str, default: int) -> int:
        """The operations that a client may do; `default` where no ACL is about the resource."""
        allowed = denied = 0
        has_acls = False
        for pattern in self._types.get(kind, _NONE).about(name):
            has_acls = True
            more, less = pattern.bits(principal, host)
            allowed |= more
            denied |= less
        return allowed & ~denied if has_acls else default

    def explain(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> AclDecision:
        """The ACL that decides; of several the first in order of their texts."""
        about = [acl for each in self._types.get(kind, _NONE).about(name) for acl in each.acls]
        found: Acl | None = None
        for acl in sorted(about, key=lambda acl: (acl.permission, str(acl))):
            if acl.principal not in (principal, EVERY_USER) or acl.host not in (host, WILDCARD):
                continue
            is_allow = acl.permission is Permission.ALLOW
            implied = IMPLIED.get(acl.operation, 0) if is_allow else 0
            if (
                acl.operation in (operation, Operation.ALL)  # DENY comes first
                or implied & (1 << operation)
            ):
                found = acl
                break
        return AclDecision(
            found is not None and found.permission is Permission.ALLOW, found, bool(about)
        )

    def any_of_type(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether some ACL allows the operation on a resource of the type, without its name.

        Kafka's authorizeByResourceType: an ALLOW counts that no DENY of the same name, or of a
        prefix of it, outweighs. A DENY of `*` outweighs all.
        """
        names: dict[tuple[Permission, PatternType], set[str]] = {
            (permission, pattern): set()
            for permission in (Permission.ALLOW, Permission.DENY)
            for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        }
        of_type = self._types.get(kind, _NONE)
        for patterns in (of_type.literal, of_type.prefixed):
            for pattern in patterns.values():
                for acl in pattern.acls:
                    if (
                        acl.host in (host, WILDCARD)
                        and acl.principal in (principal, EVERY_USER)
                        and acl.operation in (operation, Operation.ALL)
                    ):
                        names[acl.permission, acl.pattern_type].add(acl.name)
        denied = names[Permission.DENY, PatternType.LITERAL]
        denied_prefixes = names[Permission.DENY, PatternType.PREFIXED]
        if WILDCARD in denied:
            return False
        literal = names[Permission.ALLOW, PatternType.LITERAL]
        if WILDCARD in literal:
            return True
        return any(
            not any(name[:end] in denied_prefixes for end in range(1, len(name) + 1))
            for name in (literal - denied) | names[Permission.ALLOW, PatternType.PREFIXED]
        )
