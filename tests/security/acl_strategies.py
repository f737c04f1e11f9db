"""ACLs and requests that often meet, and the rule as it is written down, for comparison."""

from collections.abc import Iterable

from hypothesis import strategies as st

from ottla.security.acls import Acl
from ottla.security.operations import Operation, PatternType, Permission, ResourceType

NAMES = ["*", "a", "ab", "abc", "abd", "b", "orders", "orders.eu", "orders.us", "hardcode"]
PRINCIPALS = ["User:*", "User:alice", "User:bob", "Group:alice", "User:a:b"]
HOSTS = ["*", "127.0.0.1", "10.0.0.1"]
TYPES = [each for each in ResourceType if each > ResourceType.ANY]
OPERATIONS = [each for each in Operation if each > Operation.ALL]

acls = st.builds(
    Acl,
    st.sampled_from(TYPES[:2]),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from([Operation.ALL, *OPERATIONS]),
    st.sampled_from([Permission.DENY, Permission.ALLOW]),
)


def allowed_as_written(
    acls: Iterable[Acl],
    *,
    principal: str,
    host: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
    allow_everyone: bool,
) -> bool:
    """StandardAuthorizer's rule in its own words: slow, and without an index."""
    about = [
        acl
        for acl in acls
        if acl.resource_type == kind
        and (
            name.startswith(acl.name)
            if acl.pattern_type == PatternType.PREFIXED
            else acl.name in (name, "*")
        )
    ]
    if not about:
        return allow_everyone
    mine = [
        acl for acl in about if acl.principal in (principal, "User:*") and acl.host in (host, "*")
    ]
    if any(
        acl.permission == Permission.DENY and acl.operation in (operation, Operation.ALL)
        for acl in mine
    ):
        return False
    enough = {operation, Operation.ALL}
    if operation == Operation.DESCRIBE:
        enough |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation == Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    return any(acl.permission == Permission.ALLOW and acl.operation in enough for acl in mine)
