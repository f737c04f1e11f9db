"""Kerberos names and settings: `sasl.kerberos.*`, Krb5LoginModule's options, and from a principal
of a realm to a user. Pure.

Rules kept here:
1. A principal is `user@REALM` or `service/host@REALM`. The rules are tried in order, and the first
   that fits decides; one that no rule fits is nobody, and its login fails.
2. `DEFAULT` takes the first part of a name of the default realm.
   `RULE:[n:format](pattern)s/from/to/g` builds a name of `$0` (the realm), `$1` and `$2`, where the
   principal has n parts; it must match the whole pattern. `/L` and `/U` at the end change the case.
3. A user that still has `/` or `@` is nobody: it would pass for a principal of somewhere else.
4. Patterns are RE2's, whose time is linear in the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import re2  # type: ignore[import-untyped]  # the package ships no types
from msgspec import Struct

from ottla.config.errors import ConfigError

GSSAPI: Final = "GSSAPI"
DEFAULT: Final = "DEFAULT"
_SERVICE: Final = "sasl.kerberos.service.name"
_RULE: Final = re.compile(
    r"RULE:\[(?P<parts>\d*):(?P<format>[^\]]*)\](?:\((?P<pattern>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_NUMBER: Final = re.compile(r"\$(\d)")

Rule = Callable[["Parts"], str | None]


class Parts(NamedTuple):
    """A principal: its realm, and its one or two parts."""

    realm: str
    names: tuple[str, ...]


class KerberosAcceptor(Struct, frozen=True):
    """A listener's side: the service whose tickets it takes, and where its key is."""

    principal: str
    keytab: str
    setting: str
    """The JAAS line that says so, for errors."""
    rules: tuple[str, ...] = (DEFAULT,)


class KerberosLogin(Struct, frozen=True):
    """A client's side: the service that it wants, and who it is."""

    service: str
    principal: str | None = None
    """None for whoever has the tickets of the cache."""
    keytab: str | None = None
    """None for the tickets of the cache, as kinit leaves them."""


def acceptor(
    options: Mapping[str, str], service: str | None, rules: Sequence[str], setting: str
) -> KerberosAcceptor:
    """What a listener's JAAS line says; raises ConfigError."""
    _service(options, service, setting)
    principal, keytab = options.get("principal"), options.get("keyTab")
    if not principal or not keytab:
        raise ConfigError(
            f"GSSAPI has no key: set {setting} to com.sun.security.auth.module.Krb5LoginModule "
            'required useKeyTab=true storeKey=true keyTab="/etc/ottla.keytab" '
            'principal="kafka/HOST@REALM" ;'
        )
    parse_rules(rules, "")
    return KerberosAcceptor(principal, _path(keytab), setting, tuple(rules))


def login(options: Mapping[str, str], service: str | None, setting: str) -> KerberosLogin:
    """What a client's JAAS line says; without one, the tickets of kinit. Raises ConfigError."""
    found = _service(options, service, setting)
    keytab, principal = options.get("keyTab"), options.get("principal")
    if options.get("useKeyTab", "").lower() != "true":
        return KerberosLogin(found, principal)
    if not keytab or not principal:
        raise ConfigError(f"useKeyTab=true needs keyTab and principal in {setting}")
    return KerberosLogin(found, principal, _path(keytab))


def _service(options: Mapping[str, str], configured: str | None, setting: str) -> str:
    """The first part of the brokers' principals; raises ConfigError."""
    found = options.get("serviceName")
    if found and configured and found != configured:
        raise ConfigError(
            f"{_SERVICE} is {configured}, and serviceName in {setting} is {found}: set only one"
        )
    name = found or configured
    if not name:
        raise ConfigError(
            f"GSSAPI (Kafka's default mechanism) needs {_SERVICE}, the first part of the brokers' "
            "principals; for another one set the SASL mechanism"
        )
    return name


def _path(keytab: str) -> str:
    return keytab.removeprefix("file://").removeprefix("FILE:")


def parse_rules(texts: Sequence[str], default_realm: str) -> list[Rule]:
    """`sasl.kerberos.principal.to.local.rules`; raises ConfigError."""
    return [_rule(text.strip(), default_realm) for text in texts]


def short_name(rules: Sequence[Rule], principal: str) -> str | None:
    """The user of a principal, None where no rule fits."""
    match = _PRINCIPAL.fullmatch(principal)
    if match is None:
        return None
    names = (match["first"],) if match["second"] is None else (match["first"], match["second"])
    parts = Parts(match["realm"], names)
    for rule in rules:
        found = rule(parts)
        if found is not None:
            return found if found and "/" not in found and "@" not in found else None
    return None


def _rule(text: str, default_realm: str) -> Rule:
    if text == DEFAULT:
        return lambda parts: parts.names[0] if parts.realm == default_realm != "" else None
    match = _RULE.fullmatch(text)
    if match is None:
        raise _wrong(text, "expected DEFAULT or RULE:[n:format](pattern)s/from/to/g/L")
    pattern = None if match["pattern"] is None else _compiled(text, match["pattern"])
    old = None if match["old"] is None else _compiled(text, match["old"])
    new, times = _python_replacement(match["new"] or ""), 0 if match["all"] else 1
    wanted, template, case = match["parts"], match["format"], match["case"]
    references = [int(number) for number in _NUMBER.findall(template)]
    if not wanted or any(number > int(wanted) for number in references):
        raise _wrong(text, "the format names a part that the principal does not have")

    def apply(parts: Parts) -> str | None:
        if len(parts.names) != int(wanted):
            return None
        values = (parts.realm, *parts.names)
        base = _NUMBER.sub(lambda reference: values[int(reference[1])], template)
        if pattern is not None and pattern.fullmatch(base) is None:
            return None
        result = base if old is None else old.sub(new, base, times)
        return result.lower() if case == "L" else result.upper() if case == "U" else result

    return apply


def _compiled(text: str, pattern: str) -> re.Pattern[str]:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        found: re.Pattern[str] = re2.compile(pattern, options=options)
    except re2.error as problem:
        raise _wrong(text, f"invalid pattern {pattern!r}: {problem}") from None
    return found


def _python_replacement(java: str) -> str:
    """Java's `$1` in Python's form."""
    return _NUMBER.sub(r"\\g<\1>", java.replace("\\", r"\\"))


def _wrong(text: str, why: str) -> ConfigError:
    return ConfigError(
        f"Invalid value {text} for configuration sasl.kerberos.principal.to.local.rules: {why}"
    )
