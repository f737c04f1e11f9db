"""The `ottla` command itself: finds the command that is meant, runs it, and reports what failed.

Rules kept here:
1. Only the module of the command in use is imported, so that `ottla serve` starts fast.
2. A failure is one plain line on stderr (see `failures`). An interrupt is exit status 130, and says
   nothing. A reader that went away (`| head`) is no failure.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ottla import __version__
from ottla.cli.failures import FAILURES, USAGE_ERROR, line, status

COMMANDS = {
    "serve": "Run a broker.",
    "topic": "Create, list, describe, alter, trim and delete topics.",
    "produce": "Write lines to a topic.",
    "consume": "Read a topic's records.",
    "group": "List and describe consumer groups; reset or delete their offsets.",
    "txn": "List and describe transactions; abort hanging ones.",
    "pipeline": "Run a pipeline file on Spark, or check it for mistakes.",
    "audit": "Show what was produced, stored and consumed, and what is missing.",
    "cluster": "Describe brokers and leaders; move partitions between brokers.",
    "config": "Describe and alter the settings of topics, brokers and groups.",
    "security": "Set up TLS, authentication and authorization.",
    "cert": "Make TLS certificates; show what they say and when they expire.",
    "user": "Add, list and remove users; change their passwords.",
    "acl": "Allow or deny operations; list, check and remove ACLs.",
    "quota": "Set, list and remove client quotas.",
    "registry": "Run a schema registry (Avro, JSON Schema, Protobuf).",
    "console": "Run a web console for a cluster.",
    "log": "Dump and check the log files of a partition.",
    "simulate": "Run simulated clusters with faults; look for broken promises.",
}
"""Each is the attribute `command` of the module with its name."""

INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, from its module."""
        if cmd_name not in COMMANDS:
            import difflib

            meant = difflib.get_close_matches(cmd_name, COMMANDS, 1)
            if meant:
                ctx.fail(f"No such command '{cmd_name}'. Did you mean '{meant[0]}'?")
            return None
        found = importlib.import_module(f"ottla.cli.{cmd_name}").command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing what it lists."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Click would print on an interrupt, and call a closed pipe an error."""
        try:
            result: object = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Python flushes stdout once more at its exit, which must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None


def _show_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"ottla {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has its own --help, with an example.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def command() -> None:
    """A Kafka broker in Python, and the tools around it.

    \b
    Example:
      ottla serve &
      ottla topic create events --partitions 3
      echo hello | ottla produce events
      ottla consume events
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    # A shell may close them (`<&-`, `>&-`): then there is nothing to read, and nobody who reads.
    for name, mode in (("stdin", "r"), ("stdout", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 it stays open
    try:
        # None lets Click find out whether there is a terminal; it does not know NO_COLOR.
        color = False if os.environ.get("NO_COLOR") else None
        result = command.main(arguments, prog_name="ottla", standalone_mode=False, color=color)
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        return USAGE_ERROR
    except click.Abort:
        return INTERRUPTED
    except FAILURES as problem:
        click.echo(" ".join(line(problem).split()), err=True)
        return status(problem)
    return result if isinstance(result, int) else 0
