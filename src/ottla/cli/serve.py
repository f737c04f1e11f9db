"""`ottla serve`: settings from file, environment and flags, then the broker until it is stopped."""

import os
import secrets
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import click

import ottla
from ottla.cli.options import BOOTSTRAP_VARIABLE, COMMAND_CONFIG_VARIABLE

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
INSECURE_VARIABLE = "OTTLA_ALLOW_INSECURE"
_OF_COMMANDS = (BOOTSTRAP_VARIABLE, COMMAND_CONFIG_VARIABLE, INSECURE_VARIABLE)


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
    "--registry",
    "registry_port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Also run a schema registry on this port, restarted if it dies (see ottla registry).",
)
@click.option(
    "--console",
    "console_port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Also run a web console on this port of 127.0.0.1, restarted if it dies (see ottla "
    "console).",
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
@click.option(
    "--tls",
    nargs=2,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="CERT KEY",
    help="Serve TLS with this certificate chain and private key, as PEM files.",
)
@click.option(
    "--client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --tls: require client certificates signed by a CA in this PEM file.",
)
@click.option(
    "--insecure",
    is_flag=True,
    envvar=INSECURE_VARIABLE,
    show_envvar=True,
    help="Allow listening beyond loopback without authentication.",
)
def command(
    port: int | None,
    host: str | None,
    data: Path | None,
    node_id: int | None,
    store: str | None,
    workers: int | None,
    registry_port: int | None,
    console_port: int | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    tls: tuple[Path, Path] | None,
    client_ca: Path | None,
    insecure: bool,
) -> int:
    """Run a broker until SIGTERM or Ctrl-C.

    Settings have Kafka's names. Flags take precedence over OTTLA_* variables
    (OTTLA_LOG_RETENTION_MS is log.retention.ms), and those over the file.
    `ottla config list broker` shows all settings.

    \b
    Examples:
      ottla serve --port 9092 --data /var/lib/ottla --set log.retention.hours=24
      ottla serve --workers 3
      ottla serve --registry 8081 --console 8080
      ottla serve --id 2 --store zookeeper://zk1,zk2,zk3/ottla --host 10.0.0.2 --insecure
      ottla serve --host 10.0.0.2 --tls cert.pem key.pem --client-ca ca.pem
      ottla serve --config security/server.properties   # see ottla security init
    """
    from ottla.config.errors import ConfigError
    from ottla.config.sources import load
    from ottla.security.secrets import resolve
    from ottla.server.native import native_warning

    if client_ca is not None and tls is None:
        raise click.UsageError("--client-ca needs --tls.")
    flags = [*settings, *_flags(port, host, data, tls, client_ca)]
    flags += [] if node_id is None else [f"node.id={node_id}"]
    flags += [] if store is None else [f"ottla.store={store}"]
    for name in ("listeners", "log.dirs", "node.id", "ottla.store"):
        if sum(flag.partition("=")[0].strip() == name for flag in flags) > 1:
            raise click.UsageError(f"{name} is set twice, by --set and by a flag of its own.")
    # The variables of the commands are not settings of the broker.
    environment = {name: text for name, text in os.environ.items() if name not in _OF_COMMANDS}
    try:
        loaded = load(
            None if config_file is None else config_file.read_text("utf-8"),
            file_name=str(config_file),
            environ=environment,
            flags=flags,
            resolve=lambda text: resolve(text, os.environ),
        )
        without_native = native_warning(Path(ottla.__file__).parent)
        for warning in (*loaded.warnings, *([without_native] if without_native else [])):
            print(f"ottla: {warning}", file=sys.stderr)
        _check_authentication(loaded.values, insecure)
        os.umask(0o077)  # data and metadata are for the broker's user alone
        with (
            _registry(loaded.values, registry_port),
            _console(loaded.values, console_port, registry_port),
        ):
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


def _check_authentication(values: dict[str, str], allowed: bool) -> None:
    """Refuse to be open to everyone who reaches this machine, unless that is wanted."""
    from ottla.config import BrokerConfig
    from ottla.security.listeners import insecure_listeners

    for listener in insecure_listeners(BrokerConfig.from_static(values)):
        if not allowed:
            raise click.UsageError(
                f"{listener} is reachable from other machines and does not authenticate its "
                "clients. Set up authentication with `ottla security init`, or allow it with "
                f"--insecure or {INSECURE_VARIABLE}=true."
            )
        print(
            f"ottla: {listener} does not authenticate its clients: anyone who reaches it can "
            "read and write everything",
            file=sys.stderr,
        )


def _registry(static: dict[str, str], port: int | None) -> AbstractContextManager[object]:
    """The schema registry beside the broker, where there is to be one.

    Adds what lets it log in to the broker's settings.
    """
    if port is None:
        return nullcontext()
    from ottla.config import BrokerConfig
    from ottla.config.listeners import WILDCARDS
    from ottla.registry.child import SupervisedRegistry
    from ottla.security.registry_login import registry_login

    config = BrokerConfig.from_static(static)
    listener = config.bound_listeners[0]
    if not listener.port:
        raise click.UsageError("--registry needs a broker with a fixed port.")
    if (listener.has_tls or listener.has_sasl) and config.ottla_store:
        raise click.UsageError(
            "--registry cannot authenticate to the other brokers of a cluster; start "
            "`ottla registry --command-config FILE` with a user of its own."
        )
    login = registry_login(config, secrets.token_urlsafe(32))
    static.update(login.broker)
    near = DEFAULT_HOST if listener.host in WILDCARDS else listener.host
    shown = f"[{near}]" if ":" in near else near
    where = f"{shown}:{listener.port}"
    return SupervisedRegistry(where, listener.host or DEFAULT_HOST, port, login.client)


def _console(
    static: dict[str, str], port: int | None, registry_port: int | None
) -> AbstractContextManager[object]:
    """The console beside the broker, where there is to be one. It has no login, so it is for this
    machine alone, and only where the broker needs none either.
    """
    if port is None:
        return nullcontext()
    if find_spec("jinja2") is None:
        from ottla.extras import install_command

        raise click.UsageError(
            f"--console needs jinja2; install it with: {install_command('console')}"
        )
    from ottla.config import BrokerConfig
    from ottla.config.listeners import WILDCARDS
    from ottla.console.child import SupervisedConsole

    config = BrokerConfig.from_static(static)
    listener = config.bound_listeners[0]
    if not listener.port:
        raise click.UsageError("--console needs a broker with a fixed port.")
    if listener.has_tls or listener.has_sasl:
        raise click.UsageError(
            "--console needs a PLAINTEXT listener as the first one; start `ottla console "
            "--command-config FILE` with a user of its own."
        )
    near = DEFAULT_HOST if listener.host in WILDCARDS else listener.host
    shown = f"[{near}]" if ":" in near else near
    data = Path(config.log_dirs[0])
    options = ["--bootstrap", f"{shown}:{listener.port}", "--port", str(port)]
    options += ["--data", str(data.with_name(f"{data.name}-console"))]
    if registry_port is not None:
        options += ["--registry", f"http://{shown}:{registry_port}"]
    return SupervisedConsole(options)


def _flags(
    port: int | None,
    host: str | None,
    data: Path | None,
    tls: tuple[Path, Path] | None,
    client_ca: Path | None,
) -> list[str]:
    flags = []
    protocol = "PLAINTEXT"
    if tls is not None:
        protocol = "SSL"
        flags += ["ssl.keystore.type=PEM", f"ssl.keystore.location={tls[0]}"]
        flags.append(f"ottla.ssl.key.location={tls[1]}")
    if client_ca is not None:
        flags += ["ssl.client.auth=required", "ssl.truststore.type=PEM"]
        flags.append(f"ssl.truststore.location={client_ca}")
    if port is not None or host is not None or tls is not None:
        name = DEFAULT_HOST if host is None else host
        bound = f"[{name}]" if ":" in name and not name.startswith("[") else name
        flags.append(f"listeners={protocol}://{bound}:{DEFAULT_PORT if port is None else port}")
    if data is not None:
        flags.append(f"log.dirs={data}")
    return flags
