"""Plays scripts of group requests on Apache Kafka, and writes down what it answers.

    python -m tests.coordinator.groups_transcript_recorder HOST:PORT

makes `groups_transcript.json` again, from a single Kafka broker of version 4.3.0 with its default
settings that has a topic `transcript6` with six partitions. It takes about a minute.

Kafka removes empty groups without offsets every ten minutes. Where that happens in the middle of a
script, its answers are about another group: record again.

Scripts keep to what does not depend on the order in which Kafka's tables list their members: no
more than two classic members, so that who leads is never a matter of chance.
"""

import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

from ottla.wire.message import Message
from ottla.wire.messages import consumer_group_describe as describe_messages
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.delete_groups import DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupResponse
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from testkit import raw

from .groups_transcript import PARKED, TRANSCRIPT, Answer, Play, Step

REPLIES: dict[int, type[Message]] = {
    reply.API_KEY: reply
    for reply in (
        ConsumerGroupHeartbeatResponse,
        DeleteGroupsResponse,
        DescribeGroupsResponse,
        HeartbeatResponse,
        JoinGroupResponse,
        LeaveGroupResponse,
        OffsetCommitResponse,
        OffsetDeleteResponse,
        OffsetFetchResponse,
        SyncGroupResponse,
        describe_messages.ConsumerGroupDescribeResponse,
    )
}
PARKED_AFTER_S = 0.25


class Connection:
    """One client's connection: one request at a time, whose reply may have to be waited for."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._raw = raw.Connection(f"{address[0]}:{address[1]}")
        self._expected: tuple[int, int] = (0, 0)

    def send(self, request: Message, version: int) -> None:
        self._raw.send(request, version, client_id="app")
        self._expected = request.API_KEY, version

    def receive(self, timeout_s: float) -> Message | None:
        if not self._raw.has_reply(timeout_s):
            return None
        key, version = self._expected
        return self._raw.receive(REPLIES[key], version)[1]


class Kafka:
    """A Kafka broker that coordinates everything itself."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._connections: dict[str, Connection] = {}

    def ask(self, client: str, request: Message, version: int) -> Message | None:
        if client not in self._connections:
            self._connections[client] = Connection(self._address)
        connection = self._connections[client]
        connection.send(request, version)
        may_park = isinstance(request, JoinGroupRequest | SyncGroupRequest)
        reply = connection.receive(PARKED_AFTER_S if may_park else 20)
        assert reply is not None or may_park
        return reply

    def poll(self, client: str) -> Message | None:
        return self._connections[client].receive(0.005)


def classic_script(seed: int) -> list[Step]:
    """Steps of two classic members, some of them waits."""
    choose = random.Random(seed)
    static = {name: f"i-{name}" if choose.random() < 0.4 else "" for name in "AB"}
    version = {name: choose.choice([3, 5, 8, 9]) for name in "AB"}
    session = {name: choose.choice([6_000, 9_000]) for name in "AB"}
    steps: list[Step] = []
    for _ in range(32):
        name = choose.choice("AB")
        protocol = choose.choice(["range"] * 10 + ["", "other"])
        some: list[tuple[int, Step]] = [
            (10, ["join", name, version[name], static[name], session[name]]),
            (10, ["sync", name, choose.choice([4, 5]), protocol]),
            (6, ["beat", name]),
            (6, ["wait", choose.choice([700, 1_500, 3_300])]),
            (1, ["leave", name, choose.choice([2, 5])]),
            (2 if static[name] else 0, ["forget", name]),
            (4, ["commit", name, choose.choice([5, 8, 9]), choose.randrange(7)]),
            (2, ["fetch", choose.randrange(6)]),
            (3, ["describe"]),
            (1, ["drop", choose.randrange(7)]),
            (1, ["delete"]),
        ]
        steps.append(_one_of(choose, some))
    return steps


def consumer_script(seed: int) -> list[Step]:
    """Steps of three members of the consumer protocol, some of them waits."""
    choose = random.Random(seed)
    static = {name: f"i-{name}" if choose.random() < 0.4 else "" for name in "CDE"}
    assignor = choose.choice(["", "uniform", "range"])
    steps: list[Step] = []
    for _ in range(40):
        name = choose.choice("CDE")
        tells_all, epoch_change = int(choose.random() < 0.2), choose.choice([0] * 8 + [-1, 1])
        some: list[tuple[int, Step]] = [
            (7, ["cjoin", name, static[name], assignor]),
            (20, ["cbeat", name, tells_all, epoch_change]),
            (8, ["wait", choose.choice([300, 1_150, 1_150])]),
            (1, ["cleave", name, choose.choice([-1, -2])]),
            (1 if static[name] else 0, ["forget", name]),
            (3, ["commit", name, choose.choice([8, 9]), choose.randrange(7)]),
            (1, ["fetch", choose.randrange(6)]),
            (4, ["cdescribe"]),
            (1, ["describe"]),
            (1, ["drop", choose.randrange(7)]),
            (1, ["delete"]),
            (1, ["beat", name]),
        ]
        steps.append(_one_of(choose, some))
    return steps


def mixed_script(seed: int) -> list[Step]:
    """Steps of two classic members, and one of the consumer protocol that comes to stay."""
    choose = random.Random(seed)
    static = {name: f"i-{name}" if choose.random() < 0.4 else "" for name in "AB"}
    version = {name: choose.choice([5, 9]) for name in "AB"}
    steps: list[Step] = []
    if choose.random() < 0.7:
        steps += [["join", name, version[name], static[name], 9_000] for name in "AABB"]
        steps += [["wait", 4_200], ["poll", "A"], ["poll", "B"]]
        steps += [["sync", "A", 5, "range"], ["sync", "B", 5, "range"]]
    steps.append(["cjoin", "C", "", ""])
    for _ in range(40):
        name = choose.choice("AB")
        some: list[tuple[int, Step]] = [
            (8, ["join", name, version[name], static[name], 9_000]),
            (8, ["sync", name, choose.choice([4, 5]), "range"]),
            (8, ["beat", name]),
            (4, ["wait", choose.choice([200, 1_150])]),
            (1, ["leave", name, choose.choice([2, 5])]),
            (2, ["commit", name, choose.choice([8, 9]), choose.randrange(7)]),
            (1, ["fetch", choose.randrange(6)]),
            (4, ["cdescribe"]),
            (12, ["cbeat", "C", int(choose.random() < 0.2), 0]),
        ]
        steps.append(_one_of(choose, some))
    return steps


def _one_of(choose: random.Random, some: list[tuple[int, Step]]) -> Step:
    return choose.choices([step for _, step in some], [weight for weight, _ in some])[0]


def record(address: tuple[str, int], name: str, steps: list[Step]) -> dict[str, object]:
    """Play a script; return its steps with times and answers."""
    play = Play(Kafka(address), f"{name}-{random.SystemRandom().randrange(1 << 32):x}")
    start = monotonic()
    written: list[tuple[int, Step, Answer]] = []
    parked: set[str] = set()
    for step in steps:
        if step[0] == "wait":
            sleep(int(step[1]) / 1_000)
            continue
        client = str(step[1]) if len(step) > 1 else ""
        if client in parked:
            step = ["poll", client]
        elif step[0] == "poll":
            continue
        at = int((monotonic() - start) * 1_000)
        answer = play.step(step)
        written.append((at, step, answer))
        if answer == [PARKED]:
            parked.add(client)
        else:
            parked.discard(client)
    return {"name": name, "steps": written}


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    address = host, int(port)
    scripts = {f"classic-{seed}": classic_script(seed) for seed in range(30)}
    scripts |= {f"consumer-{seed}": consumer_script(seed) for seed in range(30)}
    scripts |= {f"mixed-{seed}": mixed_script(seed) for seed in range(30)}
    with ThreadPoolExecutor(16) as pool:
        recorded = list(pool.map(lambda item: record(address, item[0], item[1]), scripts.items()))
    lines = (json.dumps(script, separators=(",", ":")) for script in recorded)
    TRANSCRIPT.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
