"""Broker settings of the audit, all of them Ottla's own: what is counted, and how often."""

from ottla.config.rows import AT_LEAST_1, BOOLEAN, INT, MEDIUM, READ_ONLY, STRING, broker

AUDIT_CONFIGS = (
    broker(
        "ottla.audit.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Count stored records by topic and time window, and write the counts to the topic "
        "`_ottla_audit`. See docs/audit.md. Ottla only.",
    ),
    broker(
        "ottla.audit.topics", STRING, ".*", None, MEDIUM, READ_ONLY,
        "A regular expression (RE2) that the names of counted topics match as a whole; internal "
        "topics are never counted. Ottla only.",
    ),
    broker(
        "ottla.audit.window.ms", INT, 60_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The length of the time windows of the counts. Ottla only.",
    ),
    broker(
        "ottla.audit.interval.ms", INT, 10_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "How often counts are written. Ottla only.",
    ),
)  # fmt: skip
