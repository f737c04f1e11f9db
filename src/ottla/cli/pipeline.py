"""`ottla pipeline`: run a pipeline file on Spark, or look for mistakes in it."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

import click

from ottla.cli.options import pairs
from ottla.extras import install_command

if TYPE_CHECKING:
    from pyspark_ottla.pipeline.model import Pipeline

NEEDED = ("pyspark", "pyarrow", "yaml", "sqlglot")
"""What the extra `spark` installs, and pipelines import."""
LAKES = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""What the formats of lakes import; the extra `lake` installs it."""

file_argument = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, readable=True), metavar="FILE"
)


@click.group("pipeline")
def command() -> None:
    """Run a pipeline file on Spark, or check it for mistakes.

    \b
    Example:
      ottla pipeline check clicks.yaml
      ottla pipeline run clicks.yaml --once
    """


@command.command("check")
@file_argument
def check(file: str) -> None:
    """Check FILE for mistakes without starting Spark.

    Each mistake is printed with its line and how to fix it; the exit status is 1 if there are any.

    \b
    Example:
      ottla pipeline check clicks.yaml
    """
    pipeline = _load(file)
    counts = [
        _count(len(pipeline.sources), "source"),
        _count(len(pipeline.steps), "step"),
        _count(len(pipeline.sinks), "sink"),
    ]
    click.echo(f"{file}: {', '.join(counts)}, no mistakes found")


@command.command("run")
@file_argument
@click.option("--once", is_flag=True, help="Process all available records, then stop.")
@click.option("--bootstrap", metavar="HOST:PORT", help="Brokers to connect to; overrides the file.")
@click.option(
    "--master",
    metavar="URL",
    help="Spark master, such as spark://host:7077.  [default: all cores of this machine]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A Spark setting; takes precedence over the file. May be repeated.",
)
def run(
    file: str, once: bool, bootstrap: str | None, master: str | None, settings: tuple[str, ...]
) -> None:
    """Run FILE until it is interrupted, or once.

    It continues where the last run ended, even after a crash, and loses or duplicates no rows.

    \b
    Example:
      ottla pipeline run clicks.yaml --set spark.driver.memory=4g
    """
    chosen = pairs(settings, "--set")
    for name in chosen:
        if not name.startswith("spark."):
            raise click.UsageError(f"--set {name}: Spark's settings begin with spark.")
    pipeline = _load(file, look_into_sql=False)
    from dataclasses import replace

    from pyspark_ottla.pipeline.problems import PipelineError
    from pyspark_ottla.pipeline.running import run_pipeline

    if bootstrap is not None:
        pipeline = replace(pipeline, bootstrap=bootstrap)
    try:
        run_pipeline(pipeline, once=once, master=master, settings=chosen)
    except PipelineError as problem:
        _fail(problem)


def _load(file: str, *, look_into_sql: bool = True) -> "Pipeline":
    """The pipeline in a file; one line for each mistake otherwise."""
    try:
        from pyspark_ottla.pipeline.checking import load
        from pyspark_ottla.pipeline.problems import PipelineError
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in NEEDED:
            raise
        raise click.ClickException(
            f"pipelines need the package {missing.name}: {install_command('spark')}"
        ) from None
    try:
        pipeline = load(file, look_into_sql=look_into_sql)
    except PipelineError as problem:
        _fail(problem)
    _check_lakes(pipeline)
    return pipeline


def _check_lakes(pipeline: "Pipeline") -> None:
    """Refuse a lake whose package is missing here, before Spark is started."""
    from pyspark_ottla.pipeline.model import LakeSink

    for sink in pipeline.sinks.values():
        if not isinstance(sink, LakeSink):
            continue
        package = LAKES.get(sink.format)
        if package is not None and find_spec(package) is None:
            raise click.ClickException(
                f"format: {sink.format} needs the package {package}: {install_command('lake')}"
            )


def _fail(problem: Exception) -> NoReturn:
    """Say it as it is: a line of its own for each mistake."""
    click.echo(str(problem), err=True)
    raise click.exceptions.Exit(1)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
