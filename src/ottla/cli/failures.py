"""What a command says where it fails, and the exit status of that.

Rules kept here:
1. A failure is one plain line, which says what can be done about the commonest ones.
2. Wrong usage is status 2, every other failure 1; a command whose status 1 is an answer, as that of
   grep and diff is, has 2 for all of them.
"""

from typing import Final

import click

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fields import EncodeError

USAGE_ERROR: Final = 2
FAILURE: Final = 1

FAILURES: Final = (click.ClickException, KafkaError, EncodeError, OSError)
"""What commands raise; anything else is a mistake of theirs."""

ADVICE: Final = {
    ErrorCode.BROKER_NOT_AVAILABLE: "start one with: ottla serve; or name another with --bootstrap",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "see: ottla topic list",
    ErrorCode.TOPIC_ALREADY_EXISTS: "see: ottla topic describe",
    ErrorCode.GROUP_ID_NOT_FOUND: "see: ottla group list",
    ErrorCode.NON_EMPTY_GROUP: "stop them first; see: ottla group describe",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "see: ottla txn list",
}
"""What to do about the commonest failures."""


class NoAnswer(click.ClickException):
    """A failure of a command whose status 1 is an answer."""

    exit_code = USAGE_ERROR


class AnsweringCommand(click.Command):
    """A command whose status 1 is an answer: all its failures are 2."""

    def invoke(self, ctx: click.Context) -> object:
        """Run it."""
        try:
            result: object = super().invoke(ctx)
            return result
        except (click.UsageError, BrokenPipeError):  # the first is 2 already, the other no failure
            raise
        except FAILURES as problem:
            raise NoAnswer(_reason(problem)) from problem


def line(problem: Exception) -> str:
    """What is said."""
    path = "ottla"
    if isinstance(problem, click.UsageError):
        path = problem.ctx.command_path if problem.ctx else path
        return f"{path}: {problem.format_message()} (see {path} --help)"
    return f"{path}: {_reason(problem)}"


def status(problem: Exception) -> int:
    """The exit status."""
    if isinstance(problem, click.ClickException):
        return problem.exit_code
    return USAGE_ERROR if isinstance(problem, EncodeError) else FAILURE


def _reason(problem: Exception) -> str:
    match problem:
        case click.ClickException():
            return problem.format_message()
        case KafkaError():
            advice = ADVICE.get(problem.code)
            return f"{problem} ({advice})" if advice else str(problem)
        case EncodeError():
            return f"value out of range for the Kafka protocol: {problem}"
        case OSError():
            name = f"{problem.filename}: " if problem.filename else ""
            return f"{name}{problem.strerror or problem}"
        case _:
            return str(problem)
