"""Replacing segments by the compacted segment that was made from them.

Rules kept here (Kafka's: a log opens correctly after a kill at any moment, recovery/loader.py):
1. The new files lose `.cleaned` for `.swap`, the old ones become `.deleted`, then the new ones lose
   `.swap`. As long as one file still ends in `.cleaned`, opening the log undoes all of it; after
   that, opening the log finishes it.
2. What fails before the old files are touched leaves the log as it was. After that the log goes
   offline, and opening it again completes the swap.
3. Readers keep the files that they have open. New readers find the new segment.
4. Snapshots of producers from between the old segments go too: they know of transactions whose
   markers compaction may have removed.
"""

from ottla.log.deletion import delete_segments
from ottla.log.local_log import LocalLog
from ottla.log.producers.snapshots import ProducerSnapshots
from ottla.log.segments.names import CLEANED, INDEX, LOG, SUFFIXES, SWAP, TIME_INDEX, stem
from ottla.log.segments.segment import LogSegment


def replace_segments(
    local: LocalLog, snapshots: ProducerSnapshots, old: list[LogSegment], now: int
) -> None:
    """Replace these segments by the `.cleaned` files with the base offset of the first one.

    The old files are in `doomed` afterwards. To be safe from a power failure, nothing of them
    is removed before the log's folder was fsynced.
    """
    local.check_online()
    if not local.segments.holds(old) or old[-1] is local.segments.active:
        raise ValueError(f"{local} has other segments than those to be replaced: {old}")
    files = local.files
    base_offset = old[0].base_offset
    path = f"{local.directory}/{stem(base_offset)}"
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
        _undo(local, path, error)
        raise
    try:
        delete_segments(local, snapshots, old, now)
        for suffix in suffixes:
            files.rename(path + suffix + SWAP, path + suffix)
    except OSError as error:
        local.fail(error)  # half of it is done, however it failed
        raise local.failed(error) from error
    new = LogSegment(files, local.cache.file(path + LOG), base_offset, size=sizes[LOG], now=now)
    new.mark_as_sealed()
    local.segments.replace(old, new)
    local.size += new.size


def _undo(local: LocalLog, path: str, error: OSError) -> None:
    try:
        for suffix in SUFFIXES:
            local.files.unlink_if_exists(path + suffix + CLEANED)
            local.files.unlink_if_exists(path + suffix + SWAP)
    except OSError:
        # The swap could be finished at the next start, with what the log has become by then.
        local.fail(error)
