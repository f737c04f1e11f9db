"""What is asked: every case of the authorization tests, by clients with different ACLs.

Rules kept here:
1. Each scenario has a user, topics, groups and a transaction of its own: none sees what another has
   done, and all ACLs can be made before the first.
2. A client has no ACL; each right alone that the API asks for; all but one of them; all; and all,
   with a DENY of one.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

import ottla.api
from ottla.api.authorization import Pair
from ottla.api.registry import ENDPOINTS
from ottla.security.operations import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message, Part
from ottla.wire.messages.create_acls import AclCreation
from ottla.wire.messages.delete_acls import DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.api.authorization_cases import GROUP, MISSING, NAME, TXN, Case, cases
from tests.api.share_authorization_cases import SHARE_GROUP, share_cases

NEW = "new"
TOPIC_ID = UUID(int=0xFEED)
"""Stands for the id that the topic has on each broker."""
MARK = "-of-"
UNKNOWN_BROKER = 99
_NAMES = (NAME, MISSING, NEW, GROUP, TXN, SHARE_GROUP)
_RESOURCES = {
    ResourceType.TOPIC: (NAME, MISSING, NEW),
    ResourceType.GROUP: (GROUP, SHARE_GROUP),
    ResourceType.TRANSACTIONAL_ID: (TXN,),
}


class Scenario(NamedTuple):
    """One request of one user."""

    number: int
    key: ApiKey
    version: int
    message: Message
    allowed: frozenset[Pair]
    denied: frozenset[Pair]

    @property
    def user(self) -> str:
        """Who asks."""
        return f"u{self.number}"

    def name(self, base: str) -> str:
        """What a topic, group or transaction of the cases is called here."""
        return f"{base}{MARK}{self.number}"

    def request(self, topic_id: UUID) -> Message:
        """The request with the names of this scenario, for a broker whose topic has this id."""
        found: Message = _renamed(self.message, self, topic_id)
        if isinstance(found, DescribeAclsRequest):
            found.resource_name_filter = self.name(NAME)
        if isinstance(found, UnregisterBrokerRequest):
            found.broker_id = UNKNOWN_BROKER  # Kafka unregisters the only one
        if isinstance(found, DeleteAclsRequest):
            found.filters[0].resource_name_filter = self.name(NAME)
        return found

    def acls(self) -> Iterator[AclCreation]:
        """The ACLs of its user."""
        for pairs, permission in (
            (self.allowed, Permission.ALLOW),
            (self.denied, Permission.DENY),
        ):
            for operation, kind in sorted(pairs):
                for name in self._resources(kind):
                    yield AclCreation(
                        resource_type=kind,
                        resource_name=name,
                        resource_pattern_type=PatternType.LITERAL,
                        principal=f"User:{self.user}",
                        host="*",
                        operation=operation,
                        permission_type=permission,
                    )

    def _resources(self, kind: ResourceType) -> Sequence[str]:
        if kind is ResourceType.CLUSTER:
            return (CLUSTER_NAME,)
        named = _RESOURCES.get(kind)
        # Users and tokens are not of a scenario.
        return ("*",) if named is None else tuple(self.name(each) for each in named)

    def __str__(self) -> str:
        return f"{self.key.name} v{self.version}, may {_shown(self.allowed)}" + (
            f", may not {_shown(self.denied)}" if self.denied else ""
        )


def scenarios() -> list[Scenario]:
    """All of them."""
    ottla.api.load_all()
    numbers = count()
    found = []
    seen = set()
    for case in (*cases(TOPIC_ID), *share_cases(TOPIC_ID)):
        same = (case.key, case.version, bytes(codec.encode(case.message, case.version)))
        if same not in seen:
            seen.add(same)
            found += [
                Scenario(next(numbers), case.key, case.version, case.message, allowed, denied)
                for allowed, denied in _rights(case)
            ]
    return found


def _rights(case: Case) -> list[tuple[frozenset[Pair], frozenset[Pair]]]:
    needed = frozenset(ENDPOINTS[case.key].authorize.pairs)
    sets = [frozenset[Pair](), *(frozenset((pair,)) for pair in needed)]
    sets += [needed - {pair} for pair in needed]
    sets.append(needed)
    unique = list(dict.fromkeys(sets))
    none = frozenset[Pair]()
    return [(allowed, none) for allowed in unique] + [
        (needed, frozenset((pair,))) for pair in needed
    ]


def _renamed(value: Any, scenario: Scenario, topic_id: UUID) -> Any:
    if isinstance(value, Part):
        fields = {
            name: _renamed(getattr(value, name), scenario, topic_id)
            for name in value.__struct_fields__
        }
        return type(value)(**fields)
    if isinstance(value, list):
        return [_renamed(each, scenario, topic_id) for each in value]
    if isinstance(value, str):
        base, separator, rest = value.partition(":")
        return scenario.name(base) + separator + rest if base in _NAMES else value
    return topic_id if value == TOPIC_ID else value


def _shown(pairs: frozenset[Pair]) -> str:
    return (
        " and ".join(
            f"{Operation(operation).name} {kind.name}" for operation, kind in sorted(pairs)
        )
        or "nothing"
    )
