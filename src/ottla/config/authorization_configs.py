"""Broker settings of the authorizer: who may do what."""

from ottla.config.rows import BOOLEAN, MEDIUM, READ_ONLY, STRING, broker

AUTHORIZATION_CONFIGS = (
    broker(
        "super.users", STRING, "", None, MEDIUM, READ_ONLY,
        "Who may do everything, whatever the ACLs say: principals such as `User:admin`, separated "
        "by semicolons. Has an effect only with `authorizer.class.name`.",
    ),
    broker(
        "allow.everyone.if.no.acl.found", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Allow everybody to use a resource that no ACL is about. Has an effect only with "
        "`authorizer.class.name`.",
    ),
)  # fmt: skip
