"""Client libraries and tools behind one small interface, so that all prove the same claims."""

from testkit.clients.aio import AioKafka
from testkit.clients.base import Client
from testkit.clients.confluent import Confluent
from testkit.clients.java import Java
from testkit.clients.kafka_python import KafkaPython
from testkit.clients.kcat import Kcat

BY_NAME: dict[str, type[Client]] = {
    kind.name: kind for kind in (Confluent, KafkaPython, AioKafka, Kcat, Java)
}
IN_MAKE_TEST = (Confluent.name, KafkaPython.name, AioKafka.name)
"""Those that pip installs; the others need programs of their own and belong to `make compat`."""
