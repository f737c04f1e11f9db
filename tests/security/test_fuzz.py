"""Every parser of security under random input: refused in its own way, never a traceback.

Short here; `OTTLA_FUZZ_EXAMPLES=100000` makes it long.
"""

import os
import struct
from base64 import urlsafe_b64encode
from functools import cache
from pathlib import Path

import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.config.errors import ConfigError
from ottla.metadata.image import Image
from ottla.metadata.store import Change, StoreError
from ottla.security.acls import AclFilter, new_acl
from ottla.security.jaas import parse_jaas
from ottla.security.jwt import TokenRules, UnsecuredValidator, parse_jwks
from ottla.security.mapping import mapped, parse_mapping_rules
from ottla.security.mechanism import LoginFailed
from ottla.security.oauthbearer import OauthBearerServer, TokenRefused
from ottla.security.plain import PlainServer
from ottla.security.sasl import GateSettings, SaslGate, Verdict
from ottla.security.scram import ScramClient, ScramServer
from ottla.security.secrets import resolve
from ottla.security.tls_context import read_keystore
from ottla.security.tls_settings import CertificateStore
from ottla.security.x509 import parse_certificate
from ottla.wire.errors import KafkaError
from ottla.wire.reply import UnanswerableError

EXAMPLES = int(os.environ.get("OTTLA_FUZZ_EXAMPLES", "60"))
# A busy machine is not a reason to fail.
fuzzed = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
SECRET = b"s" * 32


def mostly(alphabet: str) -> st.SearchStrategy[str]:
    """Texts of the characters that a grammar looks at, and some others."""
    return st.text(st.sampled_from(alphabet) | st.characters(codec="utf-8"), max_size=60)


def new_gate() -> SaslGate:
    rules = TokenRules(None, (), 30, "sub", "scope")
    return SaslGate(
        GateSettings(
            {
                "PLAIN": lambda: PlainServer({"alice": "secret"}),
                "SCRAM-SHA-256": lambda: ScramServer("SCRAM-SHA-256", lambda *_: None, SECRET),
                "OAUTHBEARER": lambda: OauthBearerServer(UnsecuredValidator(rules, lambda: 10**12)),
            }
        )
    )


def frame(key: int, version: int, body: bytes) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1) + body


handshakes = st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "X", ""]).map(
    lambda name: frame(17, 1, struct.pack(">h", len(name)) + name.encode())
)
tokens = (
    st.binary(max_size=80)
    | mostly("n,=ra\x00\x01").map(str.encode)
    | st.sampled_from(
        [b"n,,n=alice,r=abc", b"n,,\x01auth=Bearer a.b.c\x01\x01", b"\x00alice\x00no"]
    )
).map(lambda data: frame(36, 0, struct.pack(">i", len(data)) + data))
frames = (
    handshakes
    | tokens
    | st.binary(min_size=2, max_size=80)
    | st.builds(
        frame, st.sampled_from([0, 3, 17, 18, 36]), st.integers(-1, 5), st.binary(max_size=30)
    )
)


@given(st.lists(frames, max_size=6))
@fuzzed
def test_no_frames_open_the_gate(sent: list[bytes]) -> None:
    gate = new_gate()
    try:
        for number, data in enumerate(sent):
            step = gate.step(memoryview(data), float(number))
            assert step.verdict is not Verdict.DONE
            assert not gate.is_complete
            if step.verdict is Verdict.FAILED:
                return
    except UnanswerableError:
        pass


@given(st.lists(mostly("n,=rcpsiv+/=").map(str.encode) | st.binary(max_size=80), max_size=3))
@fuzzed
def test_a_scram_client_takes_no_nonsense(challenges: list[bytes]) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret", nonce="abc")
    try:
        for challenge in challenges:
            assert client.step(challenge) is not None
    except LoginFailed:
        pass


@given(mostly("abc=\";'\\ \n\t{}$required"))
@fuzzed
def test_a_jaas_line_is_read_or_refused(text: str) -> None:
    for line in (text, f"module required {text};", f'module required a="{text}";'):
        try:
            parse_jaas(line)
        except ConfigError:
            pass


@given(mostly("RULE:DEFAULT,/LU$1()[]*+?\\^.CN="), mostly("CN=,\\+O"))
@fuzzed
def test_mapping_rules_are_read_or_refused(text: str, name: str) -> None:
    for rule in (text, f"RULE:{text}/$1/L", f"RULE:(.*)/{text}/"):
        try:
            mapped(parse_mapping_rules(rule), name)
        except ValueError:
            pass


parts = st.binary(max_size=30) | st.sampled_from(
    [b'{"alg":"none"}', b'{"sub":"a","exp":1e400}', b"[]"]
)


@given(st.lists(parts, max_size=4), mostly("ab.=-_"))
@fuzzed
def test_a_token_is_refused(pieces: list[bytes], text: str) -> None:
    rules = TokenRules("issuer", ("audience",), 30, "sub", "scope")
    joined = ".".join(urlsafe_b64encode(piece).rstrip(b"=").decode() for piece in pieces)
    for token in (joined, text):
        with pytest.raises(TokenRefused):
            UnsecuredValidator(rules, lambda: 10**12)(token)


@given(st.text(max_size=60) | mostly('{}[]":,keysktyRSAne'))
@fuzzed
def test_a_key_set_is_read_or_refused(text: str) -> None:
    for document in (text, f'{{"keys":[{text}]}}', f'{{"keys":[{{"kty":"RSA","n":"{text}"}}]}}'):
        try:
            parse_jwks(document)
        except (ValueError, ConfigError):
            pass


@given(mostly("${}:envfile/dir"))
@fuzzed
def test_references_to_secrets_are_resolved_or_refused(text: str) -> None:
    for value in (text, f"${{env:{text}}}", f"${{dir:/nowhere:{text}}}"):
        try:
            resolve(value, {"x": "y"})
        except ConfigError:
            pass


@cache
def certificate() -> tuple[bytes, bytes]:
    """A PEM keystore and a DER certificate."""
    from ssl import PEM_cert_to_DER_cert

    issued = trustme.CA().issue_cert("localhost")
    chain = issued.cert_chain_pems[0].bytes()
    return issued.private_key_pem.bytes() + chain, PEM_cert_to_DER_cert(chain.decode())


changes = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=8)


def damaged(data: bytes, where: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for at, byte in where:
        changed[at % len(changed)] = byte
    return bytes(changed)


@given(changes)
@fuzzed
def test_a_damaged_certificate_is_read_or_refused(where: list[tuple[int, int]]) -> None:
    try:
        parse_certificate(damaged(certificate()[1], where))
    except ValueError:
        pass


@pytest.fixture(scope="module")
def keystore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keystores") / "keystore"
    path.touch(0o600)
    return path


@given(changes, st.sampled_from(["PEM", "PKCS12"]))
@fuzzed
def test_a_damaged_keystore_is_read_or_refused(
    keystore: Path, where: list[tuple[int, int]], kind: str
) -> None:
    keystore.write_bytes(damaged(certificate()[0 if kind == "PEM" else 1], where))
    try:
        read_keystore(CertificateStore("ssl.keystore.location", kind, str(keystore), None), None)
    except ConfigError:
        pass


small = st.integers(-2, 20)


@given(small, st.text(max_size=5), small, st.text(max_size=5), st.text(max_size=3), small, small)
@fuzzed
def test_an_acl_is_made_or_refused(
    kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int
) -> None:
    try:
        made = new_acl(kind, name, pattern, principal, host, operation, permission)
    except KafkaError:
        return
    assert AclFilter().matches(made)


@given(
    st.sampled_from(["acls", "scram", "quotas", "tokens", "security"]),
    mostly("/%abc0"),
    st.binary(max_size=60) | mostly('{}[]":,1').map(str.encode),
)
@fuzzed
def test_documents_of_a_store_that_make_no_sense_grant_nothing(
    folder: str, name: str, value: bytes
) -> None:
    image = Image()
    try:
        image.apply([Change(f"{folder}/{name}", value, 1, 1)])
    except StoreError:
        pass  # the broker says which document it is
    assert not image.acls
    assert not image.scram_credentials
    assert not image.tokens
