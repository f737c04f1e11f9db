"""RecordBatch (magic 2) to Python records and back; `columns` and `rows` do the same for Arrow."""

from ottla.records.batches import decode_batch, decode_short_batch, encode_batch
from ottla.records.compression import Codec
from ottla.records.record import Record

__all__ = ["Codec", "Record", "decode_batch", "decode_short_batch", "encode_batch"]
