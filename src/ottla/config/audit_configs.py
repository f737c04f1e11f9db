"""Broker settings of the audit, all of them Ottla's own: what is counted, and how often."""

from ottla.config.rows import AT_LEAST_1, BOOLEAN, INT, MEDIUM, READ_ONLY, STRING, broker

AUDIT_CONFIGS = (
    broker(
        "ottla.audit.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Count the stored records by topic and time window, and report the counts in the topic "
        "`_ottla_audit`. See docs/audit.md. Ottla's own.",
    ),
    broker(
        "ottla.audit.topics", STRING, ".*", None, MEDIUM, READ_ONLY,
        "A regular expression (RE2's) for the whole names of the topics that are counted; internal "
        "topics never are. Ottla's own.",
    ),
    broker(
        "ottla.audit.window.ms", INT, 60_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The length of the time windows that records are counted by. Ottla's own.",
    ),
    broker(
        "ottla.audit.interval.ms", INT, 10_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "How often what was counted is reported. Ottla's own.",
    ),
)  # fmt: skip
