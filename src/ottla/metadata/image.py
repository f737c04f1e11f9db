"""The metadata image: all documents, decoded, in plain dicts. Pure.

1. The image is a function of the documents alone: applying changes one by one gives the same image
   as building it from a snapshot of their result, in whatever order the keys of one commit come.
2. `apply` changes the image and answers with the difference in the terms of the broker: which
   topics, partitions, brokers and settings are new, different or gone. What was made and removed
   again within one call is not in it. Settings of groups and of subscriptions to clients' metrics
   are not: they are looked up when needed.
3. Values are never changed in place: a topic or a partition that is held is a snapshot.
4. A topic that goes without a record of its deletion is missing, not deleted.
5. A topic or partition with a name that no client could have given it is skipped: names become
   paths, and a writer of the store must not be able to choose any path.
6. Documents of other kinds are skipped: producer ids are read where blocks are allocated, and a
   newer broker may have written kinds that are not known here.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from ottla.config.topic_names import collision_key, topic_name_problem
from ottla.metadata import documents
from ottla.metadata.documents import BrokerEndpoint, Storage
from ottla.metadata.security_image import SecurityDelta, SecurityImage
from ottla.metadata.store import Change, Document, StoreError


class TopicImage(msgspec.Struct, frozen=True):
    """A topic and the version of its document."""

    name: str
    id: UUID
    assignment: list[list[int]]
    configs: dict[str, str]
    version: int


class PartitionImage(msgspec.Struct, frozen=True):
    """A partition's leadership and the version of its document."""

    topic: str
    index: int
    topic_id: UUID
    leader: int
    leader_epoch: int
    isr: list[int]
    partition_epoch: int
    version: int
    isr_epochs: list[int] = []
    adding: list[int] = []
    removing: list[int] = []
    isr_storage: list[Storage | None] = []
    unclean_epoch: int = -1
    deleted_below: int = 0

    def isr_epoch(self, broker: int) -> int:
        """The broker epoch under which a broker got its place in the ISR; -1 if it has none."""
        for member, epoch in zip(self.isr, self.isr_epochs, strict=False):
            if member == broker:
                return epoch
        return NO_EPOCH

    def storage_of(self, broker: int) -> Storage | None:
        """What a member of the ISR had its log on when it got its place; None: not known."""
        for member, storage in zip(self.isr, self.isr_storage, strict=False):
            if member == broker:
                return storage
        return None


class BrokerImage(msgspec.Struct, frozen=True):
    """A live broker; `epoch` is its broker epoch."""

    id: int
    epoch: int
    endpoints: list[BrokerEndpoint]
    rack: str | None
    shutting_down: bool = False
    storage: Storage | None = None
    cordoned: bool = False

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        """Where this broker is reached by clients of that listener."""
        return next((one for one in self.endpoints if one.name == listener), None)


class ConfigsImage(msgspec.Struct, frozen=True):
    """Dynamic settings and the version of their document."""

    configs: dict[str, str]
    version: int


PartitionKey = tuple[str, int]
NO_EPOCH = -1


class Delta(msgspec.Struct):
    """What one call of `apply` changed. A topic made again with a new id is deleted and created."""

    created_topics: list[TopicImage] = []
    deleted_topics: list[TopicImage] = []
    # Gone without a record of their deletion.
    missing_topics: list[TopicImage] = []
    changed_topics: list[TopicImage] = []
    changed_partitions: list[PartitionImage] = []
    deleted_partitions: list[PartitionImage] = []
    # A broker that came back with a new epoch is in both: it was down, then up.
    brokers_up: list[BrokerImage] = []
    brokers_down: list[BrokerImage] = []
    # Broker ids; None stands for the cluster's defaults.
    changed_broker_configs: list[int | None] = []
    controller_changed: bool = False
    security: SecurityDelta = msgspec.field(default_factory=SecurityDelta)


class Image(SecurityImage):
    """Everything the cluster agrees on, as of one commit."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[UUID, TopicImage] = {}
        self.topic_ids: set[UUID] = set()
        # When each topic was deleted, as far as that is on record: the epoch of the document.
        self.deleted_topics: dict[UUID, int] = {}
        self.partitions: dict[PartitionKey, PartitionImage] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.broker_configs: dict[int | None, ConfigsImage] = {}
        self.group_configs: dict[str, ConfigsImage] = {}
        self.client_metrics_configs: dict[str, ConfigsImage] = {}
        self.names_by_collision_key: dict[str, set[str]] = {}
        self.cluster_id: str | None = None
        self.controller: documents.ControllerInfo | None = None
        self.controller_version: int | None = None
        self._storage: dict[Storage, Storage] = {}

    @classmethod
    def of(cls, snapshot: Iterable[Document]) -> "Image":
        """The image of all stored documents."""
        image = cls()
        image.apply(Change(*document) for document in snapshot)
        return image

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and self._documents() == other._documents()

    def _documents(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_storage"}

    def changes_to(self, snapshot: Sequence[Document]) -> list[Change]:
        """The changes that lead from this image to that of a snapshot, in one step."""
        stored = {document.key for document in snapshot}
        known = [documents.topic_key(name) for name in self.topics]
        known += [documents.partition_key(*key) for key in self.partitions]
        known += [documents.topic_id_key(topic_id) for topic_id in self.topic_ids]
        known += [documents.deleted_topic_key(topic_id) for topic_id in self.deleted_topics]
        known += [documents.broker_key(broker) for broker in self.brokers]
        known += [documents.broker_configs_key(broker) for broker in self.broker_configs]
        known += [documents.group_configs_key(group_id) for group_id in self.group_configs]
        known += map(documents.client_metrics_configs_key, self.client_metrics_configs)
        known += self.security_keys()
        known += [documents.CONTROLLER, documents.CLUSTER]
        gone = [Change(key, None, -1, -1) for key in known if key not in stored]
        return gone + [Change(*document) for document in snapshot]

    def apply(self, changes: Iterable[Change]) -> Delta:
        """Take in changes in their order; the difference they make together."""
        before = _Before()
        for change in changes:
            try:
                self._take(change, before)
            except (msgspec.DecodeError, ValueError) as error:
                raise StoreError(
                    f"the metadata store's document {change.key} is corrupt: {error}"
                ) from error
        return before.delta(self)

    def _take(self, change: Change, before: "_Before") -> None:
        kind, _, rest = change.key.partition("/")
        if kind == "partitions":
            self._take_partition(rest, change, before)
        elif kind == "topics":
            self._take_topic(rest, change, before)
        elif kind == "brokers":
            self._take_broker(int(rest), change, before)
        elif change.key.startswith(documents.BROKER_CONFIGS):
            self._take_configs(rest.partition("/")[2], change, before)
        elif change.key.startswith(documents.GROUP_CONFIGS):
            group_id = change.key.removeprefix(documents.GROUP_CONFIGS)
            _take_named_configs(self.group_configs, group_id, change)
        elif change.key.startswith(documents.CLIENT_METRICS_CONFIGS):
            name = change.key.removeprefix(documents.CLIENT_METRICS_CONFIGS)
            _take_named_configs(self.client_metrics_configs, name, change)
        elif change.key == documents.CONTROLLER:
            before.controller = True
            self.controller = _CONTROLLER.decode(change.value) if change.value else None
            self.controller_version = change.version if change.value else None
        elif kind == "topic-ids":
            (self.topic_ids.add if change.value is not None else self.topic_ids.discard)(UUID(rest))
        elif kind == "deleted-topics":
            if change.value is None:
                self.deleted_topics.pop(UUID(rest), None)
            else:
                self.deleted_topics[UUID(rest)] = change.epoch
        elif change.key == documents.CLUSTER:
            self.cluster_id = _CLUSTER.decode(change.value).cluster_id if change.value else None
        else:
            self.take_security(change, before.security)

    def _take_partition(self, rest: str, change: Change, before: "_Before") -> None:
        topic, _, number = rest.rpartition("/")
        if topic_name_problem(topic) is not None:
            return
        key = (topic, int(number))
        before.partitions.setdefault(key, self.partitions.get(key))
        if change.value is None:
            self.partitions.pop(key, None)
            return
        state = _PARTITION.decode(change.value)
        self.partitions[key] = PartitionImage(
            topic,
            key[1],
            state.topic_id,
            state.leader,
            state.leader_epoch,
            state.isr,
            state.partition_epoch,
            change.version,
            state.isr_epochs,
            state.adding,
            state.removing,
            self._shared(state.isr_storage),
            state.unclean_epoch,
            state.deleted_below,
        )

    def _shared(self, storage: list[Storage | None]) -> list[Storage | None]:
        """The same objects for all partitions: there are as many as brokers."""
        return [each and self._storage.setdefault(each, each) for each in storage]

    def _take_topic(self, name: str, change: Change, before: "_Before") -> None:
        if topic_name_problem(name) is not None:
            return
        old = self.topics.pop(name, None)
        before.topics.setdefault(name, old)
        if old is not None:
            del self.topics_by_id[old.id]
        if change.value is not None:
            topic = _TOPIC.decode(change.value)
            new = TopicImage(name, topic.id, topic.assignment, topic.configs, change.version)
            self.topics[name] = self.topics_by_id[new.id] = new
        self._note_collisions(name, exists=change.value is not None)

    def _note_collisions(self, name: str, *, exists: bool) -> None:
        key = collision_key(name)
        if key is None:
            return
        names = self.names_by_collision_key.setdefault(key, set())
        if exists:
            names.add(name)
        else:
            names.discard(name)
        if not names:
            del self.names_by_collision_key[key]

    def _take_broker(self, broker: int, change: Change, before: "_Before") -> None:
        before.brokers.setdefault(broker, self.brokers.get(broker))
        if change.value is None:
            self.brokers.pop(broker, None)
            return
        state = _BROKER.decode(change.value)
        self.brokers[broker] = BrokerImage(
            broker,
            change.epoch,
            state.endpoints,
            state.rack,
            state.shutting_down,
            state.storage,
            state.cordoned,
        )

    def _take_configs(self, owner: str, change: Change, before: "_Before") -> None:
        broker = None if owner == documents.DEFAULT_BROKER else int(owner)
        before.broker_configs.setdefault(broker, self.broker_configs.get(broker))
        if change.value is None:
            self.broker_configs.pop(broker, None)
        else:
            configs = _CONFIGS.decode(change.value).configs
            self.broker_configs[broker] = ConfigsImage(configs, change.version)


def _take_named_configs(known: dict[str, ConfigsImage], name: str, change: Change) -> None:
    if change.value is None:
        known.pop(name, None)
    else:
        known[name] = ConfigsImage(_CONFIGS.decode(change.value).configs, change.version)


class _Before:
    """What was there under each touched key before the first change of it."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage | None] = {}
        self.partitions: dict[PartitionKey, PartitionImage | None] = {}
        self.brokers: dict[int, BrokerImage | None] = {}
        self.broker_configs: dict[int | None, ConfigsImage | None] = {}
        self.controller = False
        self.security = SecurityDelta()

    def delta(self, image: Image) -> Delta:
        delta = Delta(controller_changed=self.controller, security=self.security)
        for name, old in self.topics.items():
            new = image.topics.get(name)
            if old is not None and new is not None and old.id == new.id:
                if old != new:
                    delta.changed_topics.append(new)
                continue
            if old is not None and old.id in image.deleted_topics:
                delta.deleted_topics.append(old)
            elif old is not None:
                delta.missing_topics.append(old)
            if new is not None:
                delta.created_topics.append(new)
        for key, was in self.partitions.items():
            now = image.partitions.get(key)
            if now is None and was is not None:
                delta.deleted_partitions.append(was)
            elif now is not None and now != was:
                delta.changed_partitions.append(now)
        for broker, down in self.brokers.items():
            up = image.brokers.get(broker)
            if up != down:
                delta.brokers_down.extend([down] if down else [])
                delta.brokers_up.extend([up] if up else [])
        for owner, configs in self.broker_configs.items():
            if image.broker_configs.get(owner) != configs:
                delta.changed_broker_configs.append(owner)
        return delta


# A decoder made once is several times faster than one made for each value.
_TOPIC = msgspec.json.Decoder(documents.TopicDocument)
_PARTITION = msgspec.json.Decoder(documents.PartitionState)
_BROKER = msgspec.json.Decoder(documents.BrokerRegistration)
_CONFIGS = msgspec.json.Decoder(documents.Configs)
_CONTROLLER = msgspec.json.Decoder(documents.ControllerInfo)
_CLUSTER = msgspec.json.Decoder(documents.ClusterIdentity)
