"""The index of ACLs decides as StandardAuthorizer's rule says."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.security.acls import Acl, AclFilter
from ottla.security.authorizer import Authorizer
from ottla.security.operations import (
    ALL_BITS,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.security.principal import Principal, parse_principal
from ottla.security.rules import Rules

from .acl_strategies import HOSTS, NAMES, OPERATIONS, PRINCIPALS, TYPES, acls, allowed_as_written

TOPIC = ResourceType.TOPIC


@given(st.sets(acls, max_size=12), st.booleans())
def test_every_decision_is_that_of_the_rule_as_written(
    known: set[Acl], allow_everyone: bool
) -> None:
    """Each example makes more than a thousand decisions."""
    authorizer = Authorizer(["User:root"], allow_everyone=allow_everyone, rules=Rules(known))
    for principal in PRINCIPALS[1:]:
        for host in HOSTS[1:]:
            for name in NAMES:
                for kind in TYPES[:2]:
                    bits = authorizer.bits(parse_principal(principal), host, kind, name)
                    for operation in OPERATIONS:
                        expected = allowed_as_written(
                            known,
                            principal=principal,
                            host=host,
                            operation=operation,
                            kind=kind,
                            name=name,
                            allow_everyone=allow_everyone,
                        )
                        assert bool(bits & (1 << operation)) == expected
                        if name == "orders.eu":
                            told, _ = authorizer.explain(
                                parse_principal(principal), host, operation, kind, name
                            )
                            assert told == expected


@given(st.sets(acls, max_size=12), st.sets(acls, max_size=6), st.data())
def test_rules_that_were_changed_are_those_made_at_once(
    before: set[Acl], added: set[Acl], data: st.DataObject
) -> None:
    removed = data.draw(st.sets(st.sampled_from(sorted(before)))) if before else set()
    changed = Rules(before).changed(added, removed)
    expected = (before - removed) | added
    assert set(changed) == expected
    fresh = Rules(expected)
    for name in NAMES:
        assert changed.bits("User:alice", "10.0.0.1", TOPIC, name, 0) == fresh.bits(
            "User:alice", "10.0.0.1", TOPIC, name, 0
        )


def _acl(
    name: str,
    permission: Permission = Permission.ALLOW,
    *,
    pattern: PatternType = PatternType.LITERAL,
    operation: Operation = Operation.WRITE,
) -> Acl:
    return Acl(TOPIC, name, pattern, "User:alice", "*", operation, permission)


ALICE = Principal("User", "alice")


def test_a_super_user_may_do_everything() -> None:
    authorizer = Authorizer(["User:alice"], rules=Rules([_acl("*", Permission.DENY)]))
    assert authorizer.bits(ALICE, "h", TOPIC, "t") == ALL_BITS
    assert authorizer.explain(ALICE, "h", Operation.WRITE, TOPIC, "t") == (True, "SuperUser")


def test_any_topic_will_do_unless_it_is_outweighed() -> None:
    def may(*acls: Acl, allow_everyone: bool = False) -> bool:
        authorizer = Authorizer(rules=Rules(acls), allow_everyone=allow_everyone)
        return authorizer.access(ALICE, "h").allows_any(Operation.WRITE, TOPIC)

    deny, prefixed = Permission.DENY, PatternType.PREFIXED
    assert not may()
    assert may(allow_everyone=True)
    assert may(_acl("a"))
    assert not may(_acl("a", operation=Operation.READ))
    assert may(_acl("*"), _acl("a", deny))
    assert not may(_acl("a"), _acl("a", deny))
    assert not may(_acl("abc"), _acl("ab", deny, pattern=prefixed))
    assert may(_acl("ab", pattern=prefixed), _acl("ab", deny))
    assert not may(_acl("a"), _acl("*", deny))


def test_a_change_of_acls_reaches_an_access_that_exists() -> None:
    authorizer = Authorizer()
    access = authorizer.access(ALICE, "h")
    assert not access.topics["t"]
    seen = access.view
    authorizer.changed([_acl("t")], [])
    assert access.topics["t"] & (1 << Operation.WRITE)
    assert access.view != seen
    authorizer.changed([], [_acl("t")])
    assert not access.allows(Operation.WRITE, TOPIC, "t")
    authorizer.configured(["User:alice"], allow_everyone=False)
    assert access.allows(Operation.WRITE, TOPIC, "t")


def test_explain_names_the_rule_that_decides() -> None:
    deny = _acl("t", Permission.DENY)
    authorizer = Authorizer(rules=Rules([deny, _acl("t", operation=Operation.READ)]))
    allowed, why = authorizer.explain(ALICE, "h", Operation.WRITE, TOPIC, "t")
    assert not allowed
    assert str(deny) in why
    assert authorizer.explain(ALICE, "h", Operation.DESCRIBE, TOPIC, "t")[0]
    assert authorizer.explain(ALICE, "h", Operation.DESCRIBE, TOPIC, "u") == (False, "DefaultDeny")


def test_a_match_filter_finds_every_acl_about_a_resource() -> None:
    prefixed = PatternType.PREFIXED
    known = [_acl("*"), _acl("ab"), _acl("a", pattern=prefixed), _acl("ab", pattern=prefixed)]
    match = AclFilter(TOPIC, "ab", PatternType.MATCH)
    assert [acl for acl in known if match.matches(acl)] == known
    assert [acl for acl in known if AclFilter(TOPIC, "a", PatternType.MATCH).matches(acl)] == [
        known[0],
        known[2],
    ]
    literal = AclFilter(TOPIC, "ab", PatternType.LITERAL)
    assert [acl for acl in known if literal.matches(acl)] == [known[1]]
