"""What tests of share groups ask brokers for, whichever brokers they are."""

from uuid import UUID

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.raw import Connection

PATIENCE_SECONDS = 30
METADATA_VERSION = 12


def configure_group(bootstrap: str, group: str, **settings: str) -> None:
    """Set settings of a group; underscores stand for the dots of their names."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(PATIENCE_SECONDS)


def read_from_beginning(bootstrap: str, group: str) -> None:
    """Let a share group begin with the first record."""
    configure_group(bootstrap, group, share_auto_offset_reset="earliest")


def id_of(bootstrap: str, topic: str) -> UUID:
    """A topic's id."""
    with Connection(bootstrap.split(",")[0]) as connection:
        request = MetadataRequest(topics=None)
        answer = connection.ask(request, MetadataResponse, METADATA_VERSION)
    return next(each.topic_id for each in answer.topics if each.name == topic)
