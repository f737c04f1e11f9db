"""What a caller of the client has to catch: `KafkaError`, and nothing else.

Failures of the network carry Kafka's code for them, so that one rule (`retriable`) says for every
error whether trying again can help.
"""

from ottla.wire.errors import ErrorCode, KafkaError


class ConnectionFailed(KafkaError):  # noqa: N818 (it names what happened)
    """A broker could not be reached, or was lost before it answered."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class NoBroker(KafkaError):  # noqa: N818 (it names what happened)
    """None of the bootstrap servers answered. Not retried: the address is likely wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, message)


class OffsetOutOfRange(KafkaError):  # noqa: N818 (Kafka's own name)
    """A reader asked for an offset that the partition does not have (any more, or yet)."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"partition {partition} of topic {topic} has no offset {offset}",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


def check(error_code: int, message: str | None = None, about: str = "") -> None:
    """Raise what a reply says went wrong; `about` names the thing it is about."""
    if error_code != ErrorCode.NONE:
        raise error(error_code, message, about)


def error(error_code: int, message: str | None = None, about: str = "") -> KafkaError:
    """The exception for a reply's error code, with a text that stands alone."""
    try:
        code = ErrorCode(error_code)
        name = code.name
    except ValueError:
        code, name = ErrorCode.UNKNOWN_SERVER_ERROR, f"error {error_code}"
    text = f"{message.rstrip('.')} ({name})" if message else name
    return KafkaError(code, f"{about}: {text}" if about else text)


def plain(problem: OSError) -> str:
    """What the system says, without numbers and Python's names."""
    return problem.strerror or str(problem) or type(problem).__name__
