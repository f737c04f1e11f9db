"""Random decisions of Ottla's authorizer beside those of Kafka's StandardAuthorizer in a JVM."""

import random
import subprocess
from collections.abc import Iterator

from ottla.security.acls import Acl
from ottla.security.authorizer import Authorizer
from ottla.security.operations import Operation, PatternType, Permission, ResourceType
from ottla.security.principal import parse_principal
from ottla.security.rules import Rules
from testkit import java_runtime

TYPES = [each for each in ResourceType if each > ResourceType.ANY]
OPERATIONS = [each for each in Operation if each > Operation.ALL]
CLIENTS = ["User:alice", "User:bob", "Group:alice", "User:a:b", "User:root"]
HOSTS = ["127.0.0.1", "10.0.0.1"]
ASKED = 250
"""Decisions for each set of ACLs."""


def difference(decisions: int, seed: int) -> str | None:
    """The first decision that differs, in words; None where none does."""
    chance = random.Random(seed)
    lines: list[str] = []
    ours: list[tuple[str, bool]] = []
    while len(ours) < decisions:
        _add_case(chance, lines, ours)
    done = subprocess.run(
        java_runtime.command("Authorizing"),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        return f"Authorizing failed: {done.stderr.strip()[-500:]}"
    theirs = [line == "1" for line in done.stdout.split()]
    if len(theirs) != len(ours):
        return f"{len(theirs)} answers to {len(ours)} questions"
    for (question, allowed), expected in zip(ours, theirs, strict=True):
        if allowed != expected:
            return f"Kafka: {expected}, Ottla: {allowed} for {question!r}"
    return None


def _add_case(chance: random.Random, lines: list[str], ours: list[tuple[str, bool]]) -> None:
    acls = set(_acls(chance))
    allow_everyone = chance.random() < 0.3
    authorizer = Authorizer(["User:root"], allow_everyone=allow_everyone, rules=Rules(acls))
    lines.append(f"new\t{str(allow_everyone).lower()}\tUser:root")
    for acl in acls:
        fields = (str(int(each) if isinstance(each, int) else each) for each in acl)
        lines.append("\t".join(("acl", *fields)))
    kinds = sorted({acl.resource_type for acl in acls} | {ResourceType.TOPIC})
    for _ in range(ASKED):
        client, host = chance.choice(CLIENTS), chance.choice(HOSTS)
        kind, operation = chance.choice(kinds), chance.choice(OPERATIONS)
        access = authorizer.access(parse_principal(client), host)
        if chance.random() < 0.1 and kind is not ResourceType.CLUSTER:
            line = f"any\t{client}\t{host}\t{int(kind)}\t{int(operation)}"
            allowed = access.allows_any(operation, kind)
        else:
            name = _name(chance)
            line = f"ask\t{client}\t{host}\t{int(kind)}\t{name}\t{int(operation)}"
            allowed = access.allows(operation, kind, name)
        lines.append(line)
        ours.append((line, allowed))


def _acls(chance: random.Random) -> Iterator[Acl]:
    kinds = chance.sample(TYPES, 2)
    for _ in range(chance.choice([0, 1, 3, 10, 40])):
        yield Acl(
            chance.choice(kinds),
            "*" if chance.random() < 0.1 else _name(chance),
            chance.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            chance.choice(["User:*", *CLIENTS]),
            chance.choice(["*", "*", *HOSTS]),
            chance.choice([Operation.ALL, *OPERATIONS]),
            chance.choice([Permission.DENY, Permission.ALLOW, Permission.ALLOW, Permission.ALLOW]),
        )


def _name(chance: random.Random) -> str:
    return "".join(chance.choice("ab.") for _ in range(chance.randint(1, 4)))
