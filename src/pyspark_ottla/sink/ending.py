"""Ending transactions that tasks have left open: listed ones, and those that nobody lists.

Rules kept here:
1. Before a batch is decided, each listed transaction must be open under the key that was recorded;
   one that has timed out would leave a hole in the batch.
2. Losing attempts and dead runs leave transactions behind that nobody will end. They are swept,
   by patterns that match the ids of this sink only: until then they hold up readers of committed
   records.
"""

import logging
import re
from collections.abc import Sequence
from time import time

from ottla.client import Client
from ottla.client.transactional import ONGOING, TransactionKey, Transactions
from ottla.client.txn_admin import TransactionInfo, TxnAdmin
from ottla.wire.errors import KafkaError
from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.marker import Written
from pyspark_ottla.sink.names import pattern

NEAR_TIMEOUT = 0.67
"""The part of a transaction's timeout after which there is a warning."""

_log = logging.getLogger("pyspark_ottla.sink")


def check_open(client: Client, written: Sequence[Written], batch: str) -> None:
    """Raise unless all transactions are open as they were recorded; warn when one is old."""
    infos = TxnAdmin(client).describe_transactions([item.transactional_id for item in written])
    for item in written:
        info = infos.get(item.transactional_id)
        if info is None or not _is_open(info, item.key):
            found = "nothing" if info is None else info.state
            raise SinkError(
                f"the transaction of task {item.partition} of {batch} is no longer open (its "
                f"coordinator knows {item.transactional_id} as {found}), so nothing was committed. "
                "A batch that takes longer than its transactions may, from its first row to its "
                "commit, is aborted: see kafka.transaction.timeout.ms"
            )
    _warn_if_near([info for info in infos.values() if info.started is not None], batch)


def _is_open(info: TransactionInfo, key: TransactionKey) -> bool:
    known = TransactionKey(info.transactional_id, info.producer_id, info.producer_epoch)
    return info.state == ONGOING and known == key


def _warn_if_near(infos: Sequence[TransactionInfo], batch: str) -> None:
    now = time() * 1000
    for info in infos:
        took = now - (info.started or now)
        if took > NEAR_TIMEOUT * info.timeout:
            _log.warning(
                "%s took %.0f s from its first row to its commit; after %.0f s its transactions "
                "would have been aborted. Make batches smaller (maxOffsetsPerTrigger), or raise "
                "kafka.transaction.timeout.ms and the broker's transaction.max.timeout.ms",
                batch,
                took / 1000,
                info.timeout / 1000,
            )
            return


def abort_listed(transactions: Transactions, written: Sequence[Written]) -> None:
    """Abort transactions; those that have ended already are left as they are."""
    transactions.end(
        [item.key for item in written],
        commit=False,
        end_txn_version=transactions.end_txn_version,
    )


def sweep(client: Client, transactions: Transactions, sink: str, run: str | None) -> None:
    """Abort all open transactions of a run, or of all runs of a sink. Failing is not an error."""
    try:
        wanted = pattern(sink, run)
        names = transactions.ongoing(wanted, lambda name: re.fullmatch(wanted, name) is not None)
        infos = TxnAdmin(client).describe_transactions(names).values()
        keys = [
            TransactionKey(info.transactional_id, info.producer_id, info.producer_epoch)
            for info in infos
            if info.state == ONGOING
        ]
        transactions.end(keys, commit=False, end_txn_version=transactions.end_txn_version)
    except KafkaError as problem:
        _log.warning(
            "failed to end open transactions of earlier attempts of sink %s; read_committed "
            "consumers wait until they time out: %s",
            sink,
            problem,
        )
