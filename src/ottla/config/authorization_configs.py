"""Broker settings: who may do what, and how much of it (authorizer, quotas, delegation tokens)."""

from ottla.config.rows import (
    AT_LEAST_1,
    BOOLEAN,
    INT,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    broker,
)
from ottla.config.types import ConfigType

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
    broker(
        "quota.window.num", INT, 11, AT_LEAST_1, LOW, READ_ONLY,
        "The number of samples of client quotas. All but one of them may be used at once before "
        "a client is throttled.",
    ),
    broker(
        "quota.window.size.seconds", INT, 1, AT_LEAST_1, LOW, READ_ONLY,
        "The length of each sample of client quotas.",
    ),
    broker(
        "controller.quota.window.num", INT, 11, AT_LEAST_1, LOW, READ_ONLY,
        "The number of samples of `controller_mutation_rate` quotas.",
    ),
    broker(
        "controller.quota.window.size.seconds", INT, 1, AT_LEAST_1, LOW, READ_ONLY,
        "The length of each sample of `controller_mutation_rate` quotas.",
    ),
    broker(
        "delegation.token.secret.key", ConfigType.PASSWORD, None, None, MEDIUM, READ_ONLY,
        "The secret that delegation tokens are made from, the same on all brokers. Without it "
        "there are no delegation tokens.",
    ),
    broker(
        "delegation.token.max.lifetime.ms", LONG, 604_800_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "How long a delegation token lives at most; it cannot be renewed beyond that.",
    ),
    broker(
        "delegation.token.expiry.time.ms", LONG, 86_400_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "How long a delegation token lives until it is renewed.",
    ),
    broker(
        "delegation.token.expiry.check.interval.ms", LONG, 3_600_000, AT_LEAST_1, LOW, READ_ONLY,
        "How often expired delegation tokens are removed.",
    ),
)  # fmt: skip
