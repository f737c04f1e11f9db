"""`ottla serve`: settings from file, environment and flags, then the broker until it is stopped."""

import os
import sys
from pathlib import Path

import click

from ottla.cli.options import BOOTSTRAP_VARIABLE

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092


@click.command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port to listen on; 0 selects a free one.  [default: {DEFAULT_PORT}]",
)
@click.option("--host", help=f"Address to listen on.  [default: {DEFAULT_HOST}]")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data folder (log.dirs).  [default: ottla-data]",
)
@click.option("--id", "node_id", type=click.IntRange(0), help="Broker id (node.id).  [default: 1]")
@click.option(
    "--store",
    metavar="ADDRESS",
    help="Metadata store of the cluster to join (ottla.store): zookeeper://HOST,HOST/CHROOT, or "
    "sqlite:PATH on one machine. Without it, the broker runs standalone.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="Number of brokers to run on this machine, with consecutive ports and ids; brokers that "
    "die are restarted.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A properties file, like Kafka's server.properties.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting, by its Kafka name. May be repeated.",
)
def command(
    port: int | None,
    host: str | None,
    data: Path | None,
    node_id: int | None,
    store: str | None,
    workers: int | None,
    config_file: Path | None,
    settings: tuple[str, ...],
) -> int:
    """Run a broker until SIGTERM or Ctrl-C.

    Settings have Kafka's names. Flags take precedence over OTTLA_* variables
    (OTTLA_LOG_RETENTION_MS is log.retention.ms), and those over the file.
    `ottla config list broker` shows all settings.

    \b
    Examples:
      ottla serve --port 9092 --data /var/lib/ottla --set log.retention.hours=24
      ottla serve --workers 3
      ottla serve --id 2 --store zookeeper://zk1,zk2,zk3/ottla --host 10.0.0.2
    """
    from ottla.config.errors import ConfigError
    from ottla.config.sources import load

    os.umask(0o077)  # data and metadata are for the broker's user alone
    flags = [*settings, *_flags(port, host, data)]
    flags += [] if node_id is None else [f"node.id={node_id}"]
    flags += [] if store is None else [f"ottla.store={store}"]
    for name in ("listeners", "log.dirs", "node.id", "ottla.store"):
        if sum(flag.partition("=")[0].strip() == name for flag in flags) > 1:
            raise click.UsageError(f"{name} is set twice, by --set and by a flag of its own.")
    # The variable that the other commands read is not a setting of the broker.
    environment = {name: text for name, text in os.environ.items() if name != BOOTSTRAP_VARIABLE}
    try:
        loaded = load(
            None if config_file is None else config_file.read_text("utf-8"),
            file_name=str(config_file),
            environ=environment,
            flags=flags,
        )
        for warning in loaded.warnings:
            print(f"ottla: {warning}", file=sys.stderr)
        if workers is not None:
            from ottla.server.supervisor import run_supervised

            return run_supervised(loaded.values, workers)
        from ottla.server.quick_start import quicken

        quicken()
        from ottla.server.run import run_broker

        return run_broker(loaded.values)
    except UnicodeDecodeError:
        raise click.UsageError(f"{config_file} is not a text file in UTF-8.") from None
    except ConfigError as problem:
        raise click.UsageError(f"{problem}.") from None


def _flags(port: int | None, host: str | None, data: Path | None) -> list[str]:
    flags = []
    if port is not None or host is not None:
        name = DEFAULT_HOST if host is None else host
        bound = f"[{name}]" if ":" in name and not name.startswith("[") else name
        flags.append(f"listeners=PLAINTEXT://{bound}:{DEFAULT_PORT if port is None else port}")
    if data is not None:
        flags.append(f"log.dirs={data}")
    return flags
