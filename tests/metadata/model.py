"""The contract's documents in a dict: what every store is compared with."""

from collections.abc import Sequence

from ottla.metadata.store import (
    Change,
    Check,
    Conflict,
    Create,
    Delete,
    Document,
    Op,
    Update,
)


class Model:
    """Documents by key; commits are atomic because a copy is changed."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self._number = 0

    def commit(self, ops: Sequence[Op]) -> list[Change]:
        """Apply all or raise Conflict; the changes in their order."""
        documents, number, changes = dict(self.documents), self._number, []
        for op in ops:
            found = documents.get(op.key)
            match op:
                case Create() if found is not None:
                    raise Conflict(op.key)
                case Update() if found is None or found.version != op.version:
                    raise Conflict(op.key)
                case Delete() if found is None or op.version not in (None, found.version):
                    raise Conflict(op.key)
                case Check() if op.version != (found.version if found else None):
                    raise Conflict(op.key)
            if isinstance(op, Check):
                continue
            number += 1
            if isinstance(op, Delete):
                assert found is not None
                del documents[op.key]
                changes.append(Change(op.key, None, found.version, found.epoch))
            else:
                version, epoch = (found.version + 1, found.epoch) if found else (0, number)
                documents[op.key] = Document(op.key, op.value, version, epoch)
                changes.append(Change(op.key, op.value, version, epoch))
        self.documents, self._number = documents, number
        return changes

    def snapshot(self) -> list[Document]:
        """All documents in the order of keys."""
        return [self.documents[key] for key in sorted(self.documents)]
