"""The settings of the brokers that one machine runs together (`--workers N`). Pure.

Rules kept here:
1. Worker k has the node id, the ports and the metrics port of the first one, plus k. A port of 0
   stays 0.
2. Its data is the folder `broker-ID` in the common data folder, beside the file with the cluster's
   metadata.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ottla.broker.metadata.stores import SQLITE, WORKERS_FILE
from ottla.config import BrokerConfig, ConfigError
from ottla.security.principal import WORKER

STORE_FILE: Final = WORKERS_FILE
_FOLDER: Final = re.compile(r"broker-([0-9]{1,10})")
_PORT: Final = re.compile(r":([0-9]+)$")
_METRICS_PORT: Final = "ottla.metrics.port"


def common_folder(static: Mapping[str, str]) -> Path:
    """The data folder that is given on the command line."""
    return Path(BrokerConfig.from_static(static).log_dirs[0])


def left_out(names: Iterable[str], workers: Iterable[int]) -> list[int]:
    """The brokers whose folders are there, and that are none of the workers."""
    found = {int(match[1]) for name in names if (match := _FOLDER.fullmatch(name))}
    return sorted(found - set(workers))


def worker_settings(static: Mapping[str, str], number: int, password: str = "") -> dict[str, str]:
    """The settings of one worker; raises ConfigError where they cannot be used for it.

    `password` is what the workers use among themselves, where their listener asks for a login.
    """
    config = BrokerConfig.from_static(static)
    if config.ottla_store:
        raise ConfigError("--workers keeps its metadata in the data folder; do not set ottla.store")
    node_id = config.node_id + number
    folder = common_folder(static)
    settings = dict(static)
    for name in ("broker.id", "log.dir"):
        settings.pop(name, None)
    settings["node.id"] = str(node_id)
    settings["log.dirs"] = str(folder / f"broker-{node_id}")
    settings["ottla.store"] = f"{SQLITE}{folder / STORE_FILE}"
    settings["listeners"] = ",".join(_moved(text, number) for text in config.listeners)
    if config.advertised_listeners:
        moved = [_moved(text, number) for text in config.advertised_listeners]
        settings["advertised.listeners"] = ",".join(moved)
    if password and (config.inter_broker.has_sasl or config.inter_broker.has_tls):
        settings["ottla.worker.password"] = password
        settings["super.users"] = ";".join(filter(None, (config.super_users, str(WORKER))))
    if config.ottla_metrics_port > 0:
        settings[_METRICS_PORT] = str(config.ottla_metrics_port + number)
    BrokerConfig.from_static(settings)  # a port or an id may be past the last one
    return settings


def _moved(listener: str, number: int) -> str:
    return _PORT.sub(lambda port: f":{int(port[1]) + number if int(port[1]) else 0}", listener)
