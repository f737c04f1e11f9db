"""Writes docs/configuration.md from the table of settings.

Run it after a change of the table:

    python tools/generate_config_docs.py
"""

from collections.abc import Iterable
from pathlib import Path

from ottla.config import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDef, DynamicMode, Scope, format_value
from ottla.config.group_configs import GROUP_CONFIGS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

This page is generated from the table of settings by `tools/generate_config_docs.py`. Names, types,
defaults and meanings are Kafka 4.3's; where Ottla differs on purpose, the text of the setting says
so.

## Where settings are made

A broker reads its settings from three sources; later ones take precedence:

1. a properties file, `ottla serve --config server.properties`, in Java's syntax: Kafka's own
   `server.properties` works;
2. environment variables: `OTTLA_LOG_RETENTION_MS` is `log.retention.ms`, and Ottla's own settings
   need no second prefix: `OTTLA_METRICS_PORT` is `ottla.metrics.port`;
3. flags: `ottla serve --set log.retention.ms=3600000`.

With a wrong name or value the broker does not start, and prints one line: what is wrong, where it
was set, and the nearest valid name. Kafka settings without a meaning in Ottla (thread counts, the
KRaft quorum, ZooKeeper, Java's TLS files) are accepted with a warning. Security settings that Ottla
does not support (an authorizer, a policy class, a TLS or SASL listener) are refused.

Settings marked *cluster-wide* can be changed without a restart, with `ottla config`, Kafka's
`kafka-configs.sh` or any admin client, for one broker or for all; so can all settings of topics and
consumer groups.

## Precedence

- For a topic or a consumer group: its own setting, then the broker's (named under *falls back to*).
- For a broker: the dynamic setting of that broker, then the dynamic default of the cluster, then
  flags, environment and file, then the default.
- Of several units for the same setting, `ms` takes precedence over `minutes`, and `minutes` over
  `hours`.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")


def render() -> str:
    """The whole page."""
    shown = [row for row in TOPIC_CONFIGS.values() if not row.internal]
    return "\n".join(
        [
            INTRODUCTION,
            "## Topic settings\n",
            *_entries(shown),
            "## Group settings\n",
            "`consumer.*` are for groups with the consumer protocol (`group.protocol=consumer`),",
            "`share.*` for share groups. The broker's `group.consumer.min.*`, `group.share.min.*`",
            "and `.max.*` limit them.\n",
            *_entries(GROUP_CONFIGS.values()),
            "## Broker settings\n",
            *_entries(row for row in BROKER_CONFIGS.values() if not row.internal),
        ]
    )


def _entries(rows: Iterable[ConfigDef]) -> list[str]:
    return [_entry(row) for row in sorted(rows, key=lambda row: row.name)]


def _entry(row: ConfigDef) -> str:
    facts = [row.type.name.lower(), f"default {_code(format_value(row.default))}"]
    if row.validator:
        facts.append(f"allowed: {_code(str(row.validator))}")
    if row.dynamic is not DynamicMode.READ_ONLY:
        facts.append(f"*{row.dynamic.value}*")
    if fallbacks := _fallbacks(row):
        facts.append(f"falls back to {', '.join(map(_code, fallbacks))}")
    return f"### `{row.name}`\n\n{row.doc}\n\n{'; '.join(facts)}\n"


def _fallbacks(row: ConfigDef) -> tuple[str, ...]:
    """The broker settings that count when this one is not made, strongest first."""
    if row.scope is not Scope.BROKER:
        return row.synonyms
    own = row.synonyms.index(row.name) if row.name in row.synonyms else len(row.synonyms)
    return row.synonyms[own + 1 :]


def _code(text: str | None) -> str:
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


if __name__ == "__main__":
    main()
