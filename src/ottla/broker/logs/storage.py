"""What this broker keeps its logs on, as it registers it: which folder, and what that may lack."""

from pathlib import Path
from typing import Final

from ottla.log.storage.folder import DataFolder, uuid_to_text
from ottla.metadata.documents import Storage

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""Which start of the machine this is: what tells a killed process from a lost page cache."""


def storage_of(folder: DataFolder, cluster_id: str, broker: int) -> Storage:
    """See that a data folder is this broker's, and which one it is; raises FolderError.

    To be asked before the mark of a clean stop is taken from it.
    """
    directory = folder.identify(cluster_id, broker).directory_id
    return Storage(uuid_to_text(directory), folder.storage_epoch(_boot_id(), directory))


def _boot_id() -> str:
    """The kernel's boot id; empty where the system has none, which counts as the same boot."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
