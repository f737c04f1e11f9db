"""Who may do what: users with passwords, and what each may read and write.

The users file has a line for each user, its fields separated by white space; `#` starts a comment:

    alice scrypt$...                         # everything
    bob   scrypt$... read:* write:orders-*   # reads all subjects, writes some

Rules kept here:
1. Passwords are kept as scrypt hashes (`ottla registry --hash-password` makes them); a plain
   password in the file is an error.
2. A user without grants may do everything. Patterns are those of a shell: `*`, `?`, `[...]`.
3. After some failures an address, or a user, has to wait before a password is looked at again.
4. A password that was right is remembered by a keyed digest, since scrypt is slow on purpose.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from msgspec import Struct

from ottla.registry.errors import RegistryError
from ottla.security.attempts import Attempts

ALL: Final = "*"
_COST: Final = (2**14, 8, 1)
_PREFIX: Final = "scrypt$"


class UsersError(Exception):
    """A users file that cannot be used; the text says why."""


class User(Struct, frozen=True):
    """A user, and patterns of the subjects that may be read and written."""

    name: str
    hashed: str = ""
    reads: tuple[str, ...] = (ALL,)
    writes: tuple[str, ...] = (ALL,)

    def may_read(self, subject: str) -> bool:
        """True if the subject may be read; who may write it may read it."""
        return _any(self.reads, subject) or _any(self.writes, subject)

    def may_write(self, subject: str) -> bool:
        """True if the subject may be changed; "" is everything."""
        return ALL in self.writes if not subject else _any(self.writes, subject)


ANYBODY: Final = User("anonymous")
"""Where no users file is given."""


def _any(patterns: Iterable[str], subject: str) -> bool:
    return any(fnmatchcase(subject, pattern) for pattern in patterns)


def hash_password(password: str) -> str:
    """The contents of a users file."""
    salt = os.urandom(16)
    found = _scrypt(password, salt)
    return _PREFIX + "$".join(base64.b64encode(part).decode() for part in (salt, found))


def _scrypt(password: str, salt: bytes) -> bytes:
    n, r, p = _COST
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=1 << 26, dklen=32)


def is_password(hashed: str, password: str) -> bool:
    """Whether a password is the one of a hash."""
    salt, _, expected = hashed.removeprefix(_PREFIX).partition("$")
    found = _scrypt(password, base64.b64decode(salt))
    return hmac.compare_digest(found, base64.b64decode(expected))


class Users:
    """The users of a file."""

    def __init__(self, users: Iterable[User]) -> None:
        self._users = {user.name: user for user in users}
        self._secret = os.urandom(32)
        self._right: dict[bytes, User] = {}
        self._attempts = Attempts()

    def remembered(self, authorization: str | None) -> User | None:
        """The user of an `Authorization` header that was right before."""
        return self._right.get(self._digest(authorization or ""))

    def verify(self, authorization: str | None, address: str = "") -> User:
        """The user of an `Authorization` header; 401, or 429 after many that were wrong. It takes
        tens of milliseconds.
        """
        kind, _, encoded = (authorization or "").partition(" ")
        try:
            if kind.lower() != "basic":
                raise ValueError
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (ValueError, binascii.Error):
            raise RegistryError(401, "Unauthorized") from None
        # An unknown user takes as long as a wrong password.
        user = self._users.get(name, User(name, _NOBODYS))
        if self._attempts.wait(address, name) > 0:
            raise RegistryError(429, "Too many logins have failed; try again in a minute")
        if not is_password(user.hashed, password) or name not in self._users:
            self._attempts.failed(address, name)
            raise RegistryError(401, "Unauthorized")
        self._attempts.succeeded(address, name)
        self._right[self._digest(authorization or "")] = user
        return user

    def _digest(self, authorization: str) -> bytes:
        return hmac.digest(self._secret, authorization.encode(), "sha256")


_NOBODYS: Final = hash_password(os.urandom(16).hex())


def load_users(path: Path) -> Users:
    """Read a users file; UsersError names the line that cannot be read."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsersError(f"cannot read {path}: {problem}") from None
    users = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("#")[0].split()
        if fields:
            try:
                users.append(_user(fields))
            except ValueError as problem:
                raise UsersError(f"{path}, line {number}: {problem}") from None
    if not users:
        raise UsersError(f"{path} has no users")
    return Users(users)


def _user(fields: list[str]) -> User:
    if len(fields) < 2 or not fields[1].startswith(_PREFIX) or fields[1].count("$") != 2:
        raise ValueError(
            "must be a name and a password hash (make one with: ottla registry --hash-password)"
        )
    name, hashed, *grants = fields
    if not grants:
        return User(name, hashed)
    reads: list[str] = []
    writes: list[str] = []
    for grant in grants:
        kind, colon, pattern = grant.partition(":")
        if not colon or not pattern or kind not in ("read", "write"):
            raise ValueError(f"{grant!r} is not read:PATTERN or write:PATTERN")
        (reads if kind == "read" else writes).append(pattern)
    return User(name, hashed, tuple(reads), tuple(writes))
