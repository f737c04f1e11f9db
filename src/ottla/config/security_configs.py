"""Broker settings: TLS, SASL and logins.

Each may also be set for one listener (`listener.name.<name>.ssl.keystore.location`). What Ottla
does not do is in the table too, and refused when it is set to anything but Kafka's default.
"""

from ottla.config.definition import ConfigDef, DynamicMode, Importance, OneOf, Only
from ottla.config.rows import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    SHORT,
    STRING,
    broker,
)
from ottla.config.types import ConfigType, Value

_JAVA = "it is an extension point of Java"
_KERBEROS = "tickets are got and renewed by the Kerberos library"
_FIXED = "it cannot be changed in Ottla"
_REFUSED = "Not supported: the broker refuses to start if it is set to another value."


def _unsupported(
    name: str,
    kind: ConfigType,
    default: Value,
    why: str,
    importance: Importance,
    dynamic: DynamicMode,
) -> ConfigDef:
    return broker(name, kind, default, Only(default, why), importance, dynamic, _REFUSED)


TLS_CONFIGS = (
    broker(
        "ssl.keystore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "The format of the keystore: PEM, PKCS12 (needs the extra `security`) or JKS.",
    ),
    broker(
        "ssl.keystore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "The file with the private key and the certificate chain of a TLS listener.",
    ),
    broker(
        "ottla.ssl.key.location", STRING, None, None, MEDIUM, PER_BROKER,
        "The file with the private key of a PEM keystore, where that is not in the keystore's own "
        "file. Ottla only.",
    ),
    broker(
        "ssl.keystore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The password of a PKCS12 or JKS keystore.",
    ),
    broker(
        "ssl.key.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The password of an encrypted private key in PEM format.",
    ),
    broker(
        "ssl.keystore.key", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The private key itself, in PEM format, instead of a file.",
    ),
    broker(
        "ssl.keystore.certificate.chain", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The certificate chain itself, in PEM format, instead of a file.",
    ),
    broker(
        "ssl.truststore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "The format of the truststore: PEM, PKCS12 (needs the extra `security`) or JKS.",
    ),
    broker(
        "ssl.truststore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "The file with the certificates to trust: those that sign clients' certificates, and "
        "those of other brokers.",
    ),
    broker(
        "ssl.truststore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The password of a PKCS12 truststore.",
    ),
    broker(
        "ssl.truststore.certificates", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The certificates to trust themselves, in PEM format, instead of a file.",
    ),
    broker(
        "ssl.client.auth", STRING, "none", OneOf(("required", "requested", "none")), MEDIUM,
        PER_BROKER,
        "Whether clients of a TLS listener need a certificate (mTLS): required, requested or none.",
    ),
    broker(
        "ssl.principal.mapping.rules", STRING, "DEFAULT", None, LOW, READ_ONLY,
        "How the distinguished name of a client's certificate becomes its user name: "
        "RULE:pattern/replacement/[LU], separated by commas; DEFAULT takes the whole name. A name "
        "that no rule matches is refused.",
    ),
    broker(
        "ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), None, MEDIUM, PER_BROKER,
        "The versions of TLS: TLSv1.2, TLSv1.3 or both.",
    ),
    broker(
        "ssl.protocol", STRING, "TLSv1.3", None, MEDIUM, PER_BROKER,
        "The newest version of TLS: TLSv1.2 or TLSv1.3.",
    ),
    broker(
        "ssl.cipher.suites", LIST, (), None, MEDIUM, PER_BROKER,
        "The cipher suites, by Java's names. If empty, all with forward secrecy and authenticated "
        "encryption; others are refused.",
    ),
    broker(
        "ssl.endpoint.identification.algorithm", STRING, "https", None, LOW, PER_BROKER,
        "With https, connections to other brokers check that the certificate is for their host; "
        "if empty, they do not.",
    ),
    broker(
        "ssl.allow.dn.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether a reloaded certificate may have another distinguished name.",
    ),
    broker(
        "ssl.allow.san.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether a reloaded certificate may have other subject alternative names.",
    ),
    _unsupported("ssl.provider", STRING, None, _JAVA, MEDIUM, PER_BROKER),
    _unsupported("ssl.engine.factory.class", CLASS, None, _JAVA, LOW, PER_BROKER),
    _unsupported("ssl.keymanager.algorithm", STRING, "SunX509", _JAVA, MEDIUM, PER_BROKER),
    _unsupported("ssl.trustmanager.algorithm", STRING, "PKIX", _JAVA, MEDIUM, PER_BROKER),
    _unsupported("ssl.secure.random.implementation", STRING, None, _JAVA, LOW, PER_BROKER),
)  # fmt: skip

SASL_CONFIGS = (
    broker(
        "sasl.enabled.mechanisms", LIST, ("GSSAPI",), None, MEDIUM, PER_BROKER,
        "The SASL mechanisms of a listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, "
        "GSSAPI (needs the extra `kerberos`).",
    ),
    broker(
        "sasl.jaas.config", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The login module of a mechanism with its options, as a JAAS line. For a broker it is set "
        "as `listener.name.<listener>.<mechanism>.sasl.jaas.config`, all in lower case.",
    ),
    broker(
        "sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", None, MEDIUM, PER_BROKER,
        "The SASL mechanism for communication between brokers, with the username and password of "
        "its JAAS line.",
    ),
    broker(
        "sasl.server.max.receive.size", INT, 524_288, None, MEDIUM, READ_ONLY,
        "The largest request, in bytes, of a client that is not authenticated yet.",
    ),
    broker(
        "sasl.server.callback.handler.class", CLASS, None, None, MEDIUM, READ_ONLY,
        "For OAUTHBEARER the name of Kafka's validator is accepted; other classes are Java's and "
        "refused.",
    ),
    broker(
        "connections.max.reauth.ms", LONG, 0, None, MEDIUM, READ_ONLY,
        "The maximum lifetime of a SASL session; clients authenticate again before it ends "
        "(KIP-368). 0 for no limit.",
    ),
    broker(
        "connection.failed.authentication.delay.ms", INT, 100, AT_LEAST_0, LOW, READ_ONLY,
        "How long the response to a failed authentication is delayed.",
    ),
    broker(
        "sasl.oauthbearer.jwks.endpoint.url", STRING, None, None, MEDIUM, READ_ONLY,
        "The JSON Web Key Set that tokens are checked with: an https:// or file:// URL.",
    ),
    broker(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, None, LOW, READ_ONLY,
        "How often the key set is read again.",
    ),
    broker(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, None, LOW, READ_ONLY,
        "The wait before a failed read of the key set is tried again; it doubles.",
    ),
    broker(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, None, LOW, READ_ONLY,
        "The longest wait before a failed read of the key set is tried again.",
    ),
    broker(
        "sasl.oauthbearer.expected.audience", LIST, (), None, LOW, READ_ONLY,
        "A token must be for one of these audiences; if empty, any.",
    ),
    broker(
        "sasl.oauthbearer.expected.issuer", STRING, None, None, LOW, READ_ONLY,
        "The issuer that a token must have; if not set, any.",
    ),
    broker(
        "sasl.oauthbearer.clock.skew.seconds", INT, 30, None, LOW, READ_ONLY,
        "How far the clock of the issuer may be from the broker's.",
    ),
    broker(
        "sasl.oauthbearer.scope.claim.name", STRING, "scope", None, LOW, READ_ONLY,
        "The claim of a token with its scope.",
    ),
    broker(
        "sasl.oauthbearer.sub.claim.name", STRING, "sub", None, LOW, READ_ONLY,
        "The claim of a token with its user.",
    ),
    broker(
        "ottla.allow.unsecured.jwt", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether OAUTHBEARER accepts unsigned tokens where no key set is given. Anyone can write "
        "one: for development only. Ottla only.",
    ),
    broker(
        "ottla.handshake.timeout.ms", INT, 10_000, AT_LEAST_1, LOW, READ_ONLY,
        "How long a client may take to finish its TLS handshake and to authenticate. Ottla only.",
    ),
    broker(
        "ottla.tls.offload", STRING, "auto", OneOf(("auto", "off")), LOW, READ_ONLY,
        "Whether the kernel encrypts what TLS connections send, so that records leave by sendfile. "
        "With auto it does where it can (Linux with the module tls). Ottla only.",
    ),
    broker(
        "ottla.registry.password", PASSWORD, "", None, LOW, READ_ONLY,
        "The password with which the schema registry of --registry logs in; set by `ottla serve` "
        "at each start, and never stored. Ottla only.",
    ),
    broker(
        "ottla.worker.password", PASSWORD, "", None, LOW, READ_ONLY,
        "The password that the brokers of --workers use among themselves; set by `ottla serve` at "
        "each start, and never stored. Ottla only.",
    ),
    _unsupported("principal.builder.class", CLASS,
                 "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
                 _JAVA, MEDIUM, PER_BROKER),
    _unsupported("sasl.client.callback.handler.class", CLASS, None, _JAVA, MEDIUM, READ_ONLY),
    _unsupported("sasl.login.callback.handler.class", CLASS, None, _JAVA, MEDIUM, READ_ONLY),
    _unsupported("sasl.login.class", CLASS, None, _JAVA, MEDIUM, READ_ONLY),
    _unsupported("sasl.login.connect.timeout.ms", INT, None, _FIXED, LOW, READ_ONLY),
    _unsupported("sasl.login.read.timeout.ms", INT, None, _FIXED, LOW, READ_ONLY),
    _unsupported("sasl.login.refresh.buffer.seconds", SHORT, 300, _FIXED, MEDIUM, PER_BROKER),
    _unsupported("sasl.login.refresh.min.period.seconds", SHORT, 60, _FIXED, MEDIUM, PER_BROKER),
    _unsupported("sasl.login.refresh.window.factor", DOUBLE, 0.8, _FIXED, MEDIUM, PER_BROKER),
    _unsupported("sasl.login.refresh.window.jitter", DOUBLE, 0.05, _FIXED, MEDIUM, PER_BROKER),
    _unsupported("sasl.login.retry.backoff.max.ms", LONG, 10_000, _FIXED, LOW, READ_ONLY),
    _unsupported("sasl.login.retry.backoff.ms", LONG, 100, _FIXED, LOW, READ_ONLY),
    _unsupported("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", _KERBEROS, MEDIUM,
                 PER_BROKER),
    _unsupported("sasl.kerberos.min.time.before.relogin", LONG, 60_000, _KERBEROS, MEDIUM,
                 PER_BROKER),
    broker(
        "sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), None, MEDIUM, PER_BROKER,
        "From Kerberos principals to users: rules that are tried in order, DEFAULT (the first part "
        "of a name of the default realm) or `RULE:[n:format](pattern)s/from/to/g/L`.",
    ),
    broker(
        "sasl.kerberos.service.name", STRING, None, None, MEDIUM, PER_BROKER,
        "The first part of the brokers' Kerberos principals.",
    ),
    _unsupported("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, _KERBEROS, MEDIUM, PER_BROKER),
    _unsupported("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, _KERBEROS, MEDIUM,
                 PER_BROKER),
)  # fmt: skip

_CLIENTS_TOKENS = "a broker does not fetch tokens; use SCRAM between brokers"
OAUTH_CLIENT_CONFIGS = tuple(
    _unsupported(f"sasl.oauthbearer.{name}", kind, default, _CLIENTS_TOKENS, importance, READ_ONLY)
    for name, kind, default, importance in (
        ("assertion.algorithm", STRING, "RS256", MEDIUM),
        ("assertion.claim.aud", STRING, None, MEDIUM),
        ("assertion.claim.exp.seconds", INT, 300, LOW),
        ("assertion.claim.iss", STRING, None, MEDIUM),
        ("assertion.claim.jti.include", BOOLEAN, False, MEDIUM),
        ("assertion.claim.nbf.seconds", INT, 60, LOW),
        ("assertion.claim.sub", STRING, None, MEDIUM),
        ("assertion.file", STRING, None, MEDIUM),
        ("assertion.private.key.file", STRING, None, MEDIUM),
        ("assertion.private.key.passphrase", PASSWORD, None, MEDIUM),
        ("assertion.template.file", STRING, None, MEDIUM),
        ("client.credentials.client.id", STRING, None, MEDIUM),
        ("client.credentials.client.secret", PASSWORD, None, MEDIUM),
        ("jwt.retriever.class", CLASS,
         "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", MEDIUM),
        ("jwt.validator.class", CLASS,
         "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", MEDIUM),
        ("scope", STRING, None, MEDIUM),
        ("token.endpoint.url", STRING, None, MEDIUM),
    )
)  # fmt: skip

SECURITY_CONFIGS = (*TLS_CONFIGS, *SASL_CONFIGS, *OAUTH_CLIENT_CONFIGS)
