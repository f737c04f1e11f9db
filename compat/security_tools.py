"""Kafka's own tools for ACLs, users, quotas and tokens: they say the same of Ottla as of Kafka.

Rules kept here:
1. Each command is run on both, good ones and wrong ones. What it prints, on both streams, and how
   it ends are compared line by line, without regard to their order: listings have none.
2. Tokens, times, ports and the salts of credentials are each broker's own, and masked.
"""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from compat.checks import TOOL_SECONDS, CheckError, check
from compat.secured_kafka import ADMIN, Addresses, both
from testkit import java_runtime
from testkit.certificates import PLAIN_MODULE
from testkit.process import BrokerProcess

COMMANDS: Final = Path(__file__).parent / "security-tools" / "commands.txt"
TOOLS: Final = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "configs": "kafka.admin.ConfigCommand",
    "tokens": "org.apache.kafka.tools.DelegationTokenCommand",
}
PASSWORD: Final = "secret"
_HMAC: Final = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")
_MASKS: Final = (
    (_HMAC, "HMAC"),
    (re.compile(r"\b[A-Za-z0-9_-]{22}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "BROKER"),
    (re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\]"), "TIME"),
    (re.compile(r" +"), " "),
)


class _Tool:
    """Runs commands on one broker."""

    def __init__(self, where: Addresses, properties: Path) -> None:
        self._where = where
        self._properties = properties
        self._hmac = ""

    def run(self, line: str) -> list[str]:
        """All that a command said, and how it ended."""
        tool, *rest = line.split()
        words = [self._hmac if word == "LAST" else word for word in rest]
        done = subprocess.run(
            java_runtime.command(
                TOOLS[tool], "--bootstrap-server", self._where.secure,
                "--command-config", str(self._properties), *words,
            ),
            capture_output=True, text=True, timeout=TOOL_SECONDS, check=False,
        )  # fmt: skip
        if found := _HMAC.search(done.stdout):
            self._hmac = found[0]
        said = [f"status {done.returncode}"]
        for each in (done.stdout + done.stderr).splitlines():
            text = each.rstrip()
            for pattern, instead in _MASKS:
                text = pattern.sub(instead, text)
            if text and not text.startswith("\tat "):
                said.append(text)
        return sorted(said)


@check("security-tools")
def acls_users_quotas_and_tokens_beside_kafka(_: BrokerProcess) -> str:
    """AclCommand, ConfigCommand and DelegationTokenCommand."""
    login = f'{PLAIN_MODULE} required username="{ADMIN}" password="{PASSWORD}";'
    found: list[str] = []
    with (
        TemporaryDirectory() as folder,
        both({ADMIN: PASSWORD}) as (broker, *addresses),
        ThreadPoolExecutor(len(addresses)) as together,
    ):
        properties = Path(folder) / "client.properties"
        properties.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"
        )
        tools = [_Tool(where, properties) for where in addresses]
        lines = COMMANDS.read_text().splitlines()
        commands = [line for line in lines if line and not line.startswith("#")]
        for command in commands:
            ours, theirs = together.map(lambda tool, what=command: tool.run(what), tools)
            if ours != theirs:
                more = [f"    Ottla: {line}" for line in ours if line not in theirs]
                more += [f"    Kafka: {line}" for line in theirs if line not in ours]
                found.append("\n".join((command, *more)))
        found += broker.tracebacks()
    if found:
        raise CheckError(f"{len(found)} of {len(commands)} commands differ\n" + "\n".join(found))
    return f"{len(commands)} commands"
