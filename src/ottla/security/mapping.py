"""`ssl.principal.mapping.rules`: from a certificate's distinguished name to a user. Pure.

Rules kept here:
1. The rules are tried in order; the first whose pattern matches the whole name decides. `DEFAULT`
   takes the name as it is.
2. `RULE:pattern/replacement/[LU]`: `$1` in the replacement is a group; L and U change the case.
3. A name that no rule matches is nobody: the login fails.
4. Patterns are RE2's, whose time is linear in the name.
"""

import re
from collections.abc import Callable
from typing import Final

import re2  # type: ignore[import-untyped]  # the package ships no types

DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|\Z)",
    re.DOTALL,
)
_GROUP: Final = re.compile(r"\$([0-9]+)")

Rule = Callable[[str], str | None]


def parse_mapping_rules(text: str) -> list[Rule]:
    """The rules; raises ValueError with what is wrong."""
    rules: list[Rule] = []
    at = 0
    text = text.strip() or DEFAULT
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise ValueError(
                f"invalid rule at {text[at : at + 40]!r}; expected DEFAULT or "
                "RULE:pattern/replacement/[LU], separated by commas"
            )
        at = match.end()
        rules.append(_same if match["default"] else _rule(match))
    return rules


def mapped(rules: list[Rule], name: str) -> str | None:
    """The user of a distinguished name, None where no rule matches."""
    for rule in rules:
        found = rule(name)
        if found is not None:
            return found
    return None


def _same(name: str) -> str | None:
    return name


def _rule(match: re.Match[str]) -> Rule:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        pattern = re2.compile(match["pattern"].replace("\\/", "/"), options=options)
    except re2.error as problem:
        raise ValueError(f"invalid pattern {match['pattern']!r}: {problem}") from None
    replacement, case = match["replacement"].replace("\\/", "/"), match["case"]

    def apply(name: str) -> str | None:
        found = pattern.fullmatch(name)
        if found is None:
            return None

        def group(reference: re.Match[str]) -> str:
            number = int(reference[1])
            return (found[number] or "") if number <= pattern.groups else reference[0]

        result = _GROUP.sub(group, replacement)
        return result.lower() if case == "L" else result.upper() if case == "U" else result

    return apply
