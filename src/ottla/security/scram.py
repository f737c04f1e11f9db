"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677), both sides. Pure, but for the random nonces.

Rules kept here:
1. Unknown users look like known ones: they get a salt that depends on the user and a
   secret of the cluster, the same number of iterations, and fail at the last message, with the same
   text after the same work. (Kafka fails them at the first message.)
2. As in Kafka: no channel binding, no SASLprep, 4,096 to 16,384 iterations, and an authorization id
   that is empty or the user.
3. A credential that is changed or removed while a login continues is no longer valid: a half
   finished login does not outlive it.
4. A server stores no password, only what verifies one (`ScramCredential`).
5. With the extension `tokenauth=true` the name is a delegation token's (KIP-48): the client is
   its owner, and the session ends with it. Unknown tokens are answered as unknown users are.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from hmac import compare_digest
from hmac import digest as hmac_digest
from secrets import randbits, token_hex
from typing import Final, NamedTuple

from ottla.security.mechanism import LoginFailed, Success

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
MOST_ITERATIONS_OF_A_SERVER: Final = 1_000_000
"""A client does not work for longer than this for a server it does not know yet."""
TOKEN_EXTENSION: Final = "tokenauth"
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SALT_BITS: Final = 130
_NAME: Final = r"(?:[^,=\x00]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,\x00]*)*))"
)
_LAST: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]*),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)"
    r"(?:,[A-Za-z]=[^,\x00]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,10})"
    r"(?:,.*)?"
)


class ScramCredential(NamedTuple):
    """What a broker keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential([hidden], iterations={self.iterations})"


FindCredential = Callable[[str, str], ScramCredential | None]
"""The credential by mechanism and user."""


class TokenLogin(NamedTuple):
    """A delegation token as a login: who gets in by it, and until when."""

    owner: str
    credential: ScramCredential
    expires_ms: int


FindToken = Callable[[str, str], TokenLogin | None]
"""The login of a delegation token by mechanism and token id; None where it is not valid."""


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's SaltedPassword; takes milliseconds."""
    return pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_from_salted(
    mechanism: str, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """What to store of a salted password, as AlterUserScramCredentials brings it."""
    name = HASHES[mechanism]
    client_key = hmac_digest(salted, b"Client Key", name)
    server_key = hmac_digest(salted, b"Server Key", name)
    return ScramCredential(salt, new_hash(name, client_key).digest(), server_key, iterations)


def new_credential(
    mechanism: str, password: str, iterations: int = LEAST_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    """What to store of a password; takes milliseconds."""
    salt = salt if salt is not None else random_salt()
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_from_salted(mechanism, salted, salt, iterations)


def random_salt() -> bytes:
    """A salt of the form that Kafka's tools give: 130 bits as text."""
    return _salt_text(randbits(_SALT_BITS))


def fake_credential(mechanism: str, user: str, secret: bytes) -> ScramCredential:
    """A credential that looks like a real one and that no password fits; always the same."""
    name = HASHES[mechanism]
    seed = hmac_digest(secret, f"{mechanism}:{user}".encode(), name)
    salt = _salt_text(int.from_bytes(seed[:17]) >> (17 * 8 - _SALT_BITS))
    return ScramCredential(
        salt,
        hmac_digest(secret, b"stored" + seed, name),
        hmac_digest(secret, b"server" + seed, name),
        LEAST_ITERATIONS,
    )


def _salt_text(number: int) -> bytes:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return (text or "0").encode()


class ScramServer:
    """The broker's side of one login."""

    def __init__(
        self,
        mechanism: str,
        find: FindCredential,
        secret: bytes,
        find_token: FindToken = lambda mechanism, token_id: None,
    ) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = find
        self._find_token = find_token
        self._secret = secret
        self._own_nonce = token_hex(16)
        self._first: re.Match[str] | None = None
        self._server_first = ""
        self._user = ""
        self._via_token = False
        self._known = False
        self._credential: ScramCredential | None = None

    def step(self, data: bytes) -> tuple[bytes, Success | None]:
        """Answer the first or the last message of the client."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise self._failed("message is not UTF-8") from None
        if self._credential is None:
            return self._on_first(text), None
        return self._on_last(text, self._credential)

    def _on_first(self, text: str) -> bytes:
        first = _FIRST.fullmatch(text)
        if first is None:
            raise self._failed("malformed first message")
        user = decode_name(first["user"])
        if first["authzid"] is not None and decode_name(first["authzid"]) != user:
            raise self._failed("authorization id is different from the username")
        extensions = first["extensions"].split(",")[1:]
        self._via_token = (
            dict(each.split("=", 1) for each in extensions).get(TOKEN_EXTENSION, "").lower()
            == "true"
        )
        success, found = self._look_up(user)
        fake = fake_credential(self._mechanism, user, self._secret)
        self._known = success is not None
        credential = fake if found is None else found
        self._first, self._user, self._credential = first, user, credential
        salt = b64encode(credential.salt).decode()
        nonce = first["nonce"] + self._own_nonce
        self._server_first = f"r={nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _look_up(self, name: str) -> tuple[Success | None, ScramCredential | None]:
        """Who a name stands for now, and what verifies the password."""
        if self._via_token:
            token = self._find_token(self._mechanism, name)
            if token is None:
                return None, None
            return Success(token.owner, token.expires_ms, via_token=True), token.credential
        found = self._find(self._mechanism, name)
        return (None if found is None else Success(name)), found

    def _on_last(self, text: str, credential: ScramCredential) -> tuple[bytes, Success]:
        first = self._first
        last = _LAST.fullmatch(text)
        if last is None or first is None:
            raise self._failed("malformed last message")
        try:
            proof = b64decode(last["proof"], validate=True)
            binding = b64decode(last["binding"], validate=True)
        except Base64Error:
            raise self._failed("malformed base64") from None
        if last["nonce"] != first["nonce"] + self._own_nonce:
            raise self._failed("wrong nonce")
        if binding != first["gs2"].encode():
            raise self._failed("wrong channel binding")
        message = f"{first['bare']},{self._server_first},{last['without_proof']}".encode()
        signature = hmac_digest(credential.stored_key, message, self._hash)
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=False))
        stored_key = new_hash(self._hash, client_key).digest()
        fits = compare_digest(stored_key, credential.stored_key) and len(proof) == len(signature)
        verifier = b64encode(hmac_digest(credential.server_key, message, self._hash))
        success, now = self._look_up(self._user)
        if not fits or not self._known:
            raise self._failed("wrong password" if self._known else self._unknown)
        if success is None or now != credential:
            raise self._failed("credential was changed during the login")
        return b"v=" + verifier, success

    @property
    def _unknown(self) -> str:
        return "unknown or expired delegation token" if self._via_token else "unknown user"

    def _failed(self, reason: str) -> LoginFailed:
        return LoginFailed(invalid_credentials(self._mechanism), reason)


class ScramClient:
    """The client's side of one login."""

    def __init__(
        self, mechanism: str, user: str, password: str, extensions: str = "", nonce: str = ""
    ) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce or token_hex(16)
        name = encode_name(user)
        self._bare = f"n={name},r={self._nonce}" + (f",{extensions}" if extensions else "")
        self._verifier: bytes | None = None

    def first(self) -> bytes:
        """User and nonce."""
        return f"n,,{self._bare}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Prove that the password is known, then check that the server knows it too."""
        if self._verifier is None:
            return self._prove(challenge)
        if not compare_digest(challenge, b"v=" + b64encode(self._verifier)):
            raise LoginFailed("the broker does not know the password: wrong server signature")
        return None

    def _prove(self, challenge: bytes) -> bytes:
        found = _SERVER_FIRST.fullmatch(challenge.decode("utf-8", "replace"))
        if found is None or not found["nonce"].startswith(self._nonce):
            raise LoginFailed("malformed SCRAM challenge")
        iterations = int(found["iterations"])
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS_OF_A_SERVER:
            raise LoginFailed(f"the broker asks for {iterations} SCRAM iterations")
        try:
            salt = b64decode(found["salt"], validate=True)
        except Base64Error:
            raise LoginFailed("malformed SCRAM challenge") from None
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        client_key = hmac_digest(salted, b"Client Key", self._hash)
        stored_key = new_hash(self._hash, client_key).digest()
        without_proof = f"c=biws,r={found['nonce']}"
        message = f"{self._bare},{found[0]},{without_proof}".encode()
        signature = hmac_digest(stored_key, message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac_digest(salted, b"Server Key", self._hash)
        self._verifier = hmac_digest(server_key, message, self._hash)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()


def invalid_credentials(mechanism: str) -> str:
    """Kafka's text for every failure of SCRAM: it says nothing about the reason."""
    return (
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism}"
    )


def encode_name(name: str) -> str:
    """A user's name as SCRAM writes it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def decode_name(text: str) -> str:
    """The name again."""
    return text.replace("=2C", ",").replace("=3D", "=")
