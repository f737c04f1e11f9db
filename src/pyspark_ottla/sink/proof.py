"""The log is the proof: whether a transaction was committed, as its partitions tell.

A coordinator forgets: an id may be taken again, expire, or be answered with an error that proves
nothing. The log does not: the transaction's records lie at known offsets, and what follows them is
a commit or an abort marker, or nothing yet.

Rules kept here:
1. One partition is enough: a coordinator decides once for all of them. Places are asked in turn
   until one can tell.
2. The last stable offset past the transaction's first offset means that it is decided. Then it is
   committed if its first batch is still there and the fetch does not list it as aborted.
3. Where that does not tell (compaction removed the batch; another's open transaction holds the last
   stable offset back), the transaction's own marker is looked for behind its last record.
4. What retention or deletion removed is unknown, never guessed. A topic that was recreated under
   the old name has other records at these offsets, or none.
5. What a leader does not show yet is not gone: its end is asked for first.
"""

from ottla.client.admin import LATEST, Admin
from ottla.client.cluster import Client, TopicPartition, UnknownTopic
from ottla.client.errors import OffsetOutOfRange
from ottla.client.log_slice import fetch_slice
from ottla.records.control import MarkerType, decode_marker
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import PartitionData
from pyspark_ottla.sink.marker import Written, WrittenRange
from pyspark_ottla.sink.recovery import Proof

ONE_BATCH = 1
"""As the limit of a fetch: it answers with one batch all the same."""
SCAN_BYTES = 4 << 20


def prove(client: Client, written: Written) -> Proof:
    """What the log says about a transaction."""
    for place in written.places:
        try:
            proof = _prove_at(client, written, place)
        except (OffsetOutOfRange, UnknownTopic):
            continue
        except KafkaError as problem:
            if problem.code is not ErrorCode.INVALID_PARTITIONS:
                raise
            continue
        if proof is not Proof.UNKNOWN:
            return proof
    return Proof.UNKNOWN


def _prove_at(client: Client, written: Written, place: WrittenRange) -> Proof:
    where = TopicPartition(place.topic, place.partition)
    # A new leader answers this only when it shows all that the one before it did (KIP-207).
    Admin(client).list_offsets({where: LATEST})
    data = fetch_slice(client, where, place.first, read_committed=True, max_bytes=ONE_BATCH)
    is_decided = data.last_stable_offset > place.first
    if is_decided and _is_there(data, written, place):
        aborted = [
            (item.producer_id, item.first_offset) for item in data.aborted_transactions or ()
        ]
        return Proof.ABORTED if (written.producer_id, place.first) in aborted else Proof.COMMITTED
    if not is_decided:
        data = fetch_slice(client, where, place.first, read_committed=False, max_bytes=ONE_BATCH)
        if not _is_there(data, written, place):
            return Proof.UNKNOWN
    ending = _marker_behind(client, written, where, place.last)
    if ending is not None:
        return Proof.COMMITTED if ending is MarkerType.COMMIT else Proof.ABORTED
    return Proof.UNKNOWN if is_decided else Proof.OPEN


def _is_there(data: PartitionData, written: Written, place: WrittenRange) -> bool:
    """True if a fetch at the transaction's first offset begins with a batch of its."""
    for _, header in headers(memoryview(data.records or b"")):
        return header.producer_id == written.producer_id and header.base_offset <= place.last
    return False


def _marker_behind(
    client: Client, written: Written, where: TopicPartition, last: int
) -> MarkerType | None:
    """The first marker of the transaction's producer after its last record."""
    offset = last + 1
    while True:
        data = fetch_slice(client, where, offset, read_committed=False, max_bytes=SCAN_BYTES)
        records = memoryview(data.records or b"")
        before = offset
        for at, header in headers(records):
            offset = header.next_offset
            # The marker of a timeout, and each of KIP-890, has the next epoch.
            if (
                header.is_control
                and header.producer_id == written.producer_id
                and header.producer_epoch in (written.epoch, written.epoch + 1)
                and header.record_count
            ):
                return decode_marker(records[at : at + header.size]).type
        if offset == before:
            return None
