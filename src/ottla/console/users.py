"""The users of a console: a file with a line for each, `NAME scrypt$...`; `#` starts a comment.

Rules kept here:
1. Passwords are kept as scrypt hashes; `ottla console user add` makes them. The file is for its
   owner alone.
2. A user that does not exist takes as long to refuse as a wrong password.
3. The file is read again when it has changed.
"""

import os
from pathlib import Path
from typing import Final

from ottla.registry.security import hash_password, is_password

_PREFIX: Final = "scrypt$"
_NOBODYS: Final = hash_password(os.urandom(16).hex())


class ConsoleUsersError(Exception):
    """A users file that cannot be used; the text says why."""


class UsersFile:
    """The users of a file."""

    def __init__(self, path: Path) -> None:
        """Raises ConsoleUsersError."""
        self._path = path
        self._read: tuple[tuple[int, int], dict[str, str]] = (0, 0), {}
        if not self._users():
            raise ConsoleUsersError(f"{path} has no users; add one with: ottla console user add")

    def is_password(self, user: str, password: str) -> bool:
        """Whether a password is right; takes tens of milliseconds either way."""
        users = self._users()
        right = is_password(users.get(user, _NOBODYS), password)
        return right and user in users

    def mark(self, user: str) -> str:
        """Something that changes when a user's line does; "-" for a user that there is not."""
        try:
            return self._users().get(user, "-")
        except ConsoleUsersError:
            return "-"  # nobody is known while the file cannot be read

    def _users(self) -> dict[str, str]:
        try:
            found = self._path.stat()
            stamp = found.st_mtime_ns, found.st_size
            if stamp != self._read[0]:
                self._read = stamp, read_users(self._path)
        except OSError as problem:
            raise ConsoleUsersError(f"cannot read {self._path}: {problem.strerror}") from None
        return self._read[1]


def read_users(path: Path) -> dict[str, str]:
    """The hashes by user; raises OSError and ConsoleUsersError."""
    users: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        if len(fields) != 2 or not fields[1].startswith(_PREFIX):
            raise ConsoleUsersError(f"{path}, line {number}: must be a name and a scrypt hash")
        users[fields[0]] = fields[1]
    return users


def write_users(path: Path, users: dict[str, str]) -> None:
    """Replace the file; it is readable by its owner alone."""
    text = "".join(f"{name} {hashed}\n" for name, hashed in sorted(users.items()))
    temporary = path.with_name(f".{path.name}.new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123 (with a mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
