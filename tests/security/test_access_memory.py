"""A client may ask for any name: what its Access remembers of them is bounded."""

import pytest

from ottla.security.authorizer import Access, Authorizer
from ottla.security.operations import Operation, ResourceType
from ottla.security.principal import Principal

ALICE = Principal("User", "alice")


@pytest.mark.parametrize("authorizer", [None, Authorizer(["User:alice"])])
@pytest.mark.parametrize("kind", [ResourceType.TOPIC, ResourceType.GROUP])
def test_long_names_are_judged_but_not_remembered(
    authorizer: Authorizer | None, kind: ResourceType
) -> None:
    access = Access(authorizer, ALICE, "10.0.0.1")
    for number in range(20):
        assert access.allows(Operation.DESCRIBE, kind, f"{number}" + "x" * 30_000)
    assert access.allows(Operation.DESCRIBE, kind, "short")
    known = access.topics if kind is ResourceType.TOPIC else access._others[kind]
    assert list(known) == ["short"]
