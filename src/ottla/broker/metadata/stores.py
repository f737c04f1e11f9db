"""Which metadata store a broker uses: a file of its own, a shared file, or ZooKeeper.

Rules kept here:
1. A file in the data folder is for a broker that is alone: nobody looks for others' changes.
2. Brokers that share a file look for others' changes many times a second; that costs microseconds.
3. A broker whose id another process has, and which shares the file, does not take it away.
"""

from pathlib import Path
from typing import Final

from ottla.config import BrokerConfig
from ottla.metadata.store import Store, StoreError
from ottla.metadata.stores.sqlite_store import OwnerInUse, SqliteStore

METADATA_FILE: Final = "metadata.sqlite"
WORKERS_FILE: Final = "cluster.sqlite"
SQLITE: Final = "sqlite:"
ZOOKEEPER: Final = "zookeeper://"
POLL_SECONDS: Final = 0.01


def session_owner(broker: int) -> str:
    """The name of a broker's session."""
    return f"broker-{broker}"


def id_in_use(broker: int) -> str:
    """The error of a broker whose id is in use."""
    return f"another broker is registered with id {broker}; set a different node.id (--id)"


def own_file(config: BrokerConfig) -> Path | None:
    """The file of a broker that is alone; None where the store is shared."""
    return None if config.ottla_store else Path(config.log_dirs[0]) / METADATA_FILE


async def open_store(config: BrokerConfig, zookeeper_wait: float) -> Store:
    """Open the store that the settings name; raises StoreError.

    `zookeeper_wait` is how many seconds ZooKeeper may take to answer.
    """
    owner = session_owner(config.node_id)
    alone = own_file(config)
    if alone is not None:
        if alone.with_name(WORKERS_FILE).exists():
            raise StoreError(
                f"{alone.parent} is the data folder of --workers (it has {WORKERS_FILE}); start "
                "it with --workers, or choose another folder"
            )
        return await SqliteStore.open(alone, owner)
    where = config.ottla_store
    if where.strip() == SQLITE:
        raise StoreError(
            f"ottla.store={where} has no file name; use {SQLITE}PATH, "
            f"like {SQLITE}/var/lib/ottla/cluster.sqlite"
        )
    if where.startswith(SQLITE):
        path = Path(where.removeprefix(SQLITE))
        try:
            return await SqliteStore.open(path, owner, poll_interval=POLL_SECONDS, exclusive=True)
        except OwnerInUse:
            raise StoreError(id_in_use(config.node_id)) from None
    if where.startswith(ZOOKEEPER):
        return await _open_zookeeper(config, owner, zookeeper_wait)
    raise StoreError(f"ottla.store={where} is neither {SQLITE}PATH nor {ZOOKEEPER}HOSTS/CHROOT")


async def _open_zookeeper(config: BrokerConfig, owner: str, connect_timeout: float) -> Store:
    # Its library costs start-up time.
    from ottla.metadata.stores.zookeeper_address import parse_address
    from ottla.metadata.stores.zookeeper_security import zookeeper_security
    from ottla.metadata.stores.zookeeper_store import ZooKeeperStore

    try:
        address = parse_address(config.ottla_store)
    except ValueError as problem:
        raise StoreError(f"ottla.store: {problem}") from None
    address = address._replace(security=zookeeper_security(config))
    session_timeout = config.broker_session_timeout_ms / 1000
    return await ZooKeeperStore.open(
        address, owner, session_timeout=session_timeout, connect_timeout=connect_timeout
    )
