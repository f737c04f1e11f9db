"""The documents of the metadata store: what each one says, and under which key it is kept.

Values are JSON. Unknown fields are skipped and new fields need a default, so that brokers of two
versions can share a store. A topic has one document for itself and one for each partition: leader,
epoch and in-sync replicas of a partition change together, and without touching its neighbours.
"""

from typing import TypeVar
from uuid import UUID

import msgspec


class BrokerEndpoint(msgspec.Struct, frozen=True):
    """Where clients of one listener connect to."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"


class Storage(msgspec.Struct, frozen=True, array_like=True):
    """Which data folder a broker has, and how often that may have lost what was written to it.

    `directory` is the folder's `directory.id`: a new disk has another. `epoch` grows with each
    unclean stop after which the machine was restarted: what was not flushed may be gone.
    """

    directory: str
    epoch: int = 0


class BrokerRegistration(msgspec.Struct, frozen=True):
    """A live broker. Registered, so it vanishes with the broker; its epoch is the document's.

    A broker that is `shutting_down` asks for its leaders to be moved first.
    Brokers of older versions do not name their `storage`. One that is `cordoned` was started with
    its folder in `cordoned.log.dirs`.
    """

    id: int
    endpoints: list[BrokerEndpoint]
    rack: str | None = None
    shutting_down: bool = False
    storage: Storage | None = None
    cordoned: bool = False


class TopicDocument(msgspec.Struct, frozen=True):
    """A topic: `assignment` has the replicas of each partition, the preferred leader first."""

    name: str
    id: UUID
    assignment: list[list[int]]
    configs: dict[str, str] = {}


class PartitionState(msgspec.Struct, frozen=True):
    """Which broker leads a partition (-1: none), since which epoch, and which replicas are in sync.

    `partition_epoch` grows with every change of this document. `topic_id` tells the partition from
    one of a deleted topic with the same name. `isr_epochs` has the broker epoch under which each
    member of `isr` got its place: a member with another epoch has restarted since. While replicas
    are reassigned `adding` and `removing` say which of them come and which go.
    `isr_storage` has what each member of `isr` kept its log on when it got its place (None if it
    did not say, and empty if none did). `unclean_epoch` is the leader epoch of the last
    election whose leader may have lacked committed records, -1 if there was none. `deleted_below`
    is the highest offset that DeleteRecords has deleted to.
    """

    topic_id: UUID
    leader: int
    leader_epoch: int
    isr: list[int]
    partition_epoch: int = 0
    isr_epochs: list[int] = []
    adding: list[int] = []
    removing: list[int] = []
    isr_storage: list[Storage | None] = []
    unclean_epoch: int = -1
    deleted_below: int = 0


class Configs(msgspec.Struct, frozen=True):
    """Dynamic settings of one broker, the cluster's defaults, or the settings of a named thing."""

    configs: dict[str, str]


class ProducerIds(msgspec.Struct, frozen=True):
    """The first producer id that is not in an allocated block."""

    next: int


class ClusterIdentity(msgspec.Struct, frozen=True):
    """What identifies the cluster."""

    cluster_id: str


class ControllerInfo(msgspec.Struct, frozen=True):
    """The controller: its broker id and broker epoch, and the controller epoch."""

    broker: int
    epoch: int
    broker_epoch: int = -1


CLUSTER = "cluster"
CONTROLLER = "controller"
PRODUCER_IDS = "producer-ids"
BROKERS = "brokers/"
TOPICS = "topics/"
TOPIC_IDS = "topic-ids/"
DELETED_TOPICS = "deleted-topics/"
PARTITIONS = "partitions/"
BROKER_CONFIGS = "configs/brokers/"
DEFAULT_BROKER = "default"
GROUP_CONFIGS = "configs/groups/"
CLIENT_METRICS_CONFIGS = "configs/client-metrics/"
SCRAM = "scram/"
TOKENS = "tokens/"
SECURITY = "security/"
SECRETS = (SCRAM, TOKENS, SECURITY)
"""Where secrets are: stores keep no old values of these documents."""

T = TypeVar("T")


def broker_key(broker: int) -> str:
    """The key of a broker's registration."""
    return f"{BROKERS}{broker}"


def topic_key(name: str) -> str:
    """The key of a topic."""
    return f"{TOPICS}{name}"


def topic_id_key(topic_id: UUID) -> str:
    """The key of a document that exists as long as the topic with this id, at version 0.

    Versions begin at 0 when a topic is created again: every change of a topic or partition by its
    version checks this document too, or it would change another topic of that name.
    """
    return f"{TOPIC_IDS}{topic_id}"


def deleted_topic_key(topic_id: UUID) -> str:
    """The key of the record that a topic was deleted; its value is the name that the topic had.

    It is written by the commit that deletes the topic. A broker deletes the log of a topic that is
    missing only where there is such a record: otherwise the metadata may be an older copy.
    """
    return f"{DELETED_TOPICS}{topic_id}"


def partition_key(topic: str, partition: int) -> str:
    """The key of a partition's state."""
    return f"{PARTITIONS}{topic}/{partition}"


def broker_configs_key(broker: int | None) -> str:
    """The key of a broker's dynamic settings; None for the cluster's defaults."""
    return f"{BROKER_CONFIGS}{DEFAULT_BROKER if broker is None else broker}"


def group_configs_key(group_id: str) -> str:
    """The key of a consumer group's own settings; an id may have any character in it."""
    return f"{GROUP_CONFIGS}{group_id}"


def client_metrics_configs_key(name: str) -> str:
    """The key of a subscription to clients' metrics; a name may have any character in it."""
    return f"{CLIENT_METRICS_CONFIGS}{name}"


def is_secret(key: str) -> bool:
    """True if a document's value must not outlive it."""
    return key.startswith(SECRETS)


def encode(document: msgspec.Struct) -> bytes:
    """The stored form of a document."""
    return msgspec.json.encode(document)


def decode(value: bytes, kind: type[T]) -> T:
    """The document of that kind; msgspec.DecodeError when the value is not one."""
    return msgspec.json.decode(value, type=kind)
