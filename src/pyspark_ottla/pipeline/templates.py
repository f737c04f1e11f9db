"""Topic names with SQL expressions in braces: `clicks-{lower(type)}`.

Rules kept here:
1. What an expression gives is made fit for a topic's name: other characters than Kafka allows
   become `_`, and null becomes `null`. A name that is too long is cut, and one that no topic can
   have (nothing, `.` or `..`) becomes `_`. A value that nobody expected must not stop a stream.
2. A brace cannot be part of a topic's name, so it needs no way to be written.
"""

import re

from pyspark_ottla.pipeline.document import Text

PIECE = re.compile(r"\{([^{}]*)\}")
LONGEST_NAME = 249
TOPIC_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{LONGEST_NAME}}}")
NOT_IN_A_NAME = "[^a-zA-Z0-9._-]"
NO_NAME = "^[.]{0,2}$"


def expressions(topic: Text) -> tuple[Text, ...]:
    """The expressions in a topic's name; none, if it is one topic."""
    return tuple(Text(found, topic.line) for found in PIECE.findall(topic))


def is_legal(topic: Text) -> bool:
    """Whether it can be a topic's name, whatever the expressions in it give."""
    plain = like(topic, "x")
    return bool(TOPIC_NAME.fullmatch(plain)) and plain not in (".", "..")


def like(topic: Text, value: str) -> str:
    """The topic's name where each expression gives this value."""
    return PIECE.sub(value, topic)


def topic_expression(topic: Text) -> str:
    """SQL for the name of each row's topic."""
    parts: list[str] = []
    for number, part in enumerate(PIECE.split(topic)):
        if number % 2:
            text = f"coalesce(CAST(({part}) AS STRING), 'null')"
            parts.append(f"regexp_replace({text}, '{NOT_IN_A_NAME}', '_')")
        elif part:
            parts.append(f"'{part}'")
    name = f"left(concat({', '.join(parts)}), {LONGEST_NAME})"
    return f"regexp_replace({name}, '{NO_NAME}', '_')"
