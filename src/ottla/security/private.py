"""Logins of Ottla's own processes: by SCRAM with a password that is made at each start. Pure.

Clients are not told of these mechanisms. The kind of the principals is not User.
"""

import os
from collections.abc import Callable
from typing import Final

from ottla.security.mechanism import ServerMechanism
from ottla.security.principal import Principal
from ottla.security.scram import ScramCredential, ScramServer, new_credential

WORKER_MECHANISM: Final = "OTTLA-WORKER"
REGISTRY_MECHANISM: Final = "OTTLA-REGISTRY"
PRIVATE_MECHANISMS: Final = (WORKER_MECHANISM, REGISTRY_MECHANISM)
PRIVATE_HASH: Final = "SCRAM-SHA-256"


def private_login(who: Principal, password: str) -> Callable[[], ServerMechanism]:
    """What makes logins of the one client that has this password."""
    credential = new_credential(PRIVATE_HASH, password)
    secret = os.urandom(32)

    def find(_: str, user: str) -> ScramCredential | None:
        return credential if user == who.name else None

    return lambda: ScramServer(PRIVATE_HASH, find, secret)
