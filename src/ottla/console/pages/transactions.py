"""Transactions: those that coordinators know, hanging ones, and ending those."""

import time

from starlette.responses import Response

from ottla.client import ConnectionFailed, KafkaError, TopicPartition
from ottla.client.txn_admin import OpenTransaction, TransactionInfo, TxnAdmin
from ottla.console.calls import BadRequest, ConsoleCall, number
from ottla.console.paging import page_of

ROWS = 25
MOST_PARTITIONS = 5_000
OLDER_THAN_MS = 60_000


def show(call: ConsoleCall) -> Response:
    """The page; with `hanging=1` partitions are searched for hanging transactions."""
    search = call.text("q")
    looking = call.text("hanging") == "1"
    hanging: list[OpenTransaction] = []
    looked = 0
    topics = call.cluster.topics() if looking else []
    with call.cluster.client() as client:
        admin = TxnAdmin(client)
        listed = [
            each
            for each in admin.list_transactions()
            if search.lower() in each.transactional_id.lower()
        ]
        page = page_of(listed, call.number("page", 1), ROWS)
        described: dict[str, TransactionInfo] = {}
        note = ""
        try:
            ids = [each.transactional_id for each in page.items]
            described = admin.describe_transactions(ids) if ids else {}
        except ConnectionFailed:
            raise
        except KafkaError as problem:
            note = str(problem)
        if looking:
            partitions = [
                TopicPartition(topic.name, each.partition)
                for topic in topics
                for each in topic.partitions
                if each.leader >= 0
            ][:MOST_PARTITIONS]
            looked = len(partitions)
            hanging = admin.find_hanging(
                partitions, older_than_ms=OLDER_THAN_MS, now_ms=time.time_ns() // 1_000_000
            )
    return call.render(
        "transactions.html",
        page=page,
        described=described,
        search=search,
        looking=looking,
        looked=looked,
        total=sum(len(topic.partitions) for topic in topics),
        hanging=hanging,
        older_than=OLDER_THAN_MS // 1000,
        now_ms=time.time_ns() // 1_000_000,
        note=note,
    )


def _find(call: ConsoleCall, fields: dict[str, str]) -> tuple[TopicPartition, OpenTransaction]:
    topic = fields.get("topic", "")
    where = TopicPartition(topic, number(fields.get("partition", ""), "partition", 0))
    producer_id = number(fields.get("producer", ""), "producer", -1)
    with call.cluster.client() as client:
        found = [
            each
            for each in TxnAdmin(client).open_transactions([where])
            if each.producer.producer_id == producer_id
        ]
    if not found:
        raise BadRequest(f"producer {producer_id} has no open transaction in this partition")
    return where, found[0]


def confirm(call: ConsoleCall) -> Response:
    """Ask before it is aborted."""
    where, found = _find(call, dict(call.query))
    return call.render("abort.html", where=where, producer=found.producer)


def abort(call: ConsoleCall) -> Response:
    """Write the abort marker."""
    where, found = _find(call, dict(call.form))
    begun = number(call.form.get("begun", ""), "begun", -1)
    if found.producer.txn_start_offset != begun:
        raise BadRequest("this transaction has ended; another one is open now")
    with call.cluster.client() as client:
        TxnAdmin(client).abort(found)
    return call.redirect("/transactions", hanging=1, aborted=f"{where.topic}-{where.partition}")
