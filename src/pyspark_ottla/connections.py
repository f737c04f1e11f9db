"""Clients that live as long as their process: Spark uses a Python process for many batches.

Rules kept here:
1. A client is lent to one user at a time, and given back only when nothing went wrong: the state of
   its connections is not known otherwise.
2. Clients of a parent process are never used after a fork: the sockets are the parent's too.
3. A wrong address is an error with the option's name; so is a secret that cannot be read here.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.client import Client, ClientSettings, NoBroker
from ottla.config.errors import ConfigError
from pyspark_ottla.errors import OptionError

_idle: dict[ClientSettings, list[Client]] = {}
_owner = os.getpid()


@contextmanager
def borrowed(settings: ClientSettings) -> Iterator[Client]:
    """A client for as long as the `with` block runs, from those that were used before."""
    client = _take(settings)
    try:
        yield client
    except NoBroker as problem:
        client.close()
        raise OptionError(
            f"option kafka.bootstrap.servers is {settings.bootstrap_servers!r}: {problem}"
        ) from None
    except ConfigError as problem:
        client.close()
        raise OptionError(f"options kafka.ssl.* and kafka.sasl.*: {problem}") from None
    except BaseException:
        client.close()
        raise
    _idle.setdefault(settings, []).append(client)


def _take(settings: ClientSettings) -> Client:
    global _owner
    if _owner != os.getpid():
        _owner = os.getpid()
        _idle.clear()
    clients = _idle.get(settings)
    return clients.pop() if clients else Client(settings)
