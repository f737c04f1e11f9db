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
        "Principals that may do everything, whatever the ACLs say, such as `User:admin`, separated "
        "by semicolons. Has an effect only with `authorizer.class.name`.",
    ),
    broker(
        "allow.everyone.if.no.acl.found", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Allow everyone to use a resource that has no ACLs. Has an effect only with "
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
        "The number of samples kept for `controller_mutation_rate` quotas.",
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
        "The maximum lifetime of a delegation token; it cannot be renewed beyond that.",
    ),
    broker(
        "delegation.token.expiry.time.ms", LONG, 86_400_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The lifetime of a delegation token before it has to be renewed.",
    ),
    broker(
        "delegation.token.expiry.check.interval.ms", LONG, 3_600_000, AT_LEAST_1, LOW, READ_ONLY,
        "How often expired delegation tokens are removed.",
    ),
)  # fmt: skip
