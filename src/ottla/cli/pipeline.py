"""`ottla pipeline`: run a pipeline file on Spark, or look for mistakes in it."""

from typing import TYPE_CHECKING, NoReturn

import click

from ottla.cli.options import pairs

if TYPE_CHECKING:
    from pyspark_ottla.pipeline.model import Pipeline

NEEDED = ("pyspark", "pyarrow", "yaml", "sqlglot")
"""What the extra `spark` installs."""

file_argument = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, readable=True), metavar="FILE"
)


@click.group("pipeline")
def command() -> None:
    """Run a pipeline file on Spark, or look for mistakes in it.

    \b
    Example:
      ottla pipeline check clicks.yaml
      ottla pipeline run clicks.yaml --once
    """


@command.command("check")
@file_argument
def check(file: str) -> None:
    """Look for mistakes in FILE without starting Spark.

    Each is told with its line, and what to do about it; the exit status is 1 if there are any.

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
@click.option("--once", is_flag=True, help="Read what there is now, then end.")
@click.option("--bootstrap", metavar="HOST:PORT", help="Brokers, in place of those in the file.")
@click.option(
    "--master",
    metavar="URL",
    help="Spark's master, such as spark://host:7077.  [default: all cores of this machine]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of Spark, before those in the file. May be repeated.",
)
def run(
    file: str, once: bool, bootstrap: str | None, master: str | None, settings: tuple[str, ...]
) -> None:
    """Run FILE until it is interrupted, or once.

    It goes on where the last run ended, however that was, and neither loses nor doubles rows.

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
            f"pipelines need the package {missing.name}: pip install 'ottla[spark]'"
        ) from None
    try:
        return load(file, look_into_sql=look_into_sql)
    except PipelineError as problem:
        _fail(problem)


def _fail(problem: Exception) -> NoReturn:
    """Say it as it is: a line of its own for each mistake."""
    click.echo(str(problem), err=True)
    raise click.exceptions.Exit(1)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
