"""Putting a compacted segment in the place of those it was made from.

Rules kept here (Kafka's, so that a log opens correctly after a kill at any moment; loading.py):
1. The new files lose `.cleaned` for `.swap`, the old ones become `.deleted`, then the new ones lose
   `.swap`. As long as one file still ends in `.cleaned`, opening the log undoes all of it; after
   that, opening the log finishes it.
2. What fails before the old files are touched leaves the log as it was. After that the log goes
   offline, and opening it again brings it in order.
3. Readers keep the files that they have open. New readers find the new segment.
4. Snapshots of producers from between the old segments go too: they know of transactions whose
   markers compaction may have removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.log.segment import Segment
from ottla.log.segment_names import CLEANED, INDEX, LOG, SUFFIXES, SWAP, TIME_INDEX, stem

if TYPE_CHECKING:
    from ottla.log.storage import Storage


def replace_segments(log: Storage, old: list[Segment], now: int) -> None:
    """Let the `.cleaned` files that begin where the first of these segments does replace them all.

    The old files are in `log.doomed` afterwards. To be safe from a power failure, nothing of them
    is removed before the log's folder was fsynced.
    """
    log.check_online()
    if not log.segments.holds(old) or old[-1] is log.segments.active:
        raise ValueError(f"{log} has other segments than those to be replaced: {old}")
    files = log.files
    base_offset = old[0].base_offset
    path = f"{log.directory}/{stem(base_offset)}"
    sizes = {
        suffix: files.stat(path + suffix + CLEANED).st_size for suffix in (LOG, INDEX, TIME_INDEX)
    }
    suffixes = [
        suffix for suffix in SUFFIXES if suffix in sizes or files.exists(path + suffix + CLEANED)
    ]
    try:
        for suffix in suffixes:
            files.rename(path + suffix + CLEANED, path + suffix + SWAP)
    except OSError as error:
        _undo(log, path, error)
        raise
    try:
        log.doom(old, now)
        for suffix in suffixes:
            files.rename(path + suffix + SWAP, path + suffix)
    except OSError as error:
        log.fail(error)  # half of it is done, no matter how it failed
        raise log.failed(error) from error
    new = Segment(files, log.cache.file(path + LOG), base_offset, size=sizes[LOG], now=now)
    new.mark_as_sealed()
    log.segments.replace(old, new)
    log.size += new.size


def _undo(log: Storage, path: str, error: OSError) -> None:
    try:
        for suffix in SUFFIXES:
            log.files.unlink_if_exists(path + suffix + CLEANED)
            log.files.unlink_if_exists(path + suffix + SWAP)
    except OSError:
        # The swap could be finished at the next start, with what the log has become by then.
        log.fail(error)
