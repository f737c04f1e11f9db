"""Resetting a group's offsets, in two steps: the plan, then its execution.

Rules kept here:
1. What is executed is the plan that was shown, offset for offset, and nothing else.
2. A group with members is refused, by this page and by its coordinator.
"""

from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

from ottla.client import Admin, Client, TopicPartition
from ottla.client.admin import EARLIEST, LATEST
from ottla.client.group_admin import CommittedOffset, GroupAdmin
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.pages.group import RESETTABLE, group_id
from ottla.console.pages.messages import read_time

TARGETS = ("earliest", "latest", "offset", "time", "shift")
MOST_PARTITIONS = 20_000

Plan = dict[TopicPartition, int]


def form(call: ConsoleCall) -> Response:
    """The form; with a target, the plan too."""
    name = group_id(call)
    target, topic = call.text("to"), call.text("topic")
    with call.cluster.client() as client:
        groups = GroupAdmin(client)
        info = groups.describe_group(name)
        committed = groups.committed_offsets(name)
        plan: Plan | None = None
        if target:
            if info.state not in RESETTABLE:
                raise BadRequest(
                    f"group {name} is {info.state}: offsets can be reset only while it has "
                    "no members"
                )
            partitions = _partitions(client, committed, topic)
            plan = _plan(client, partitions, target, call.text("at").strip(), committed)
    rows = [
        (where, committed[where].offset if where in committed else None, offset)
        for where, offset in sorted((plan or {}).items())
    ]
    return call.render(
        "reset.html",
        name=name,
        state=info.state,
        resettable=info.state in RESETTABLE,
        topics=sorted({where.topic for where in committed}),
        topic=topic,
        targets=TARGETS,
        target=target,
        at=call.text("at"),
        rows=rows,
        encoded="" if plan is None else _encode(plan),
    )


def execute(call: ConsoleCall) -> Response:
    """Commit the plan that was shown."""
    name = group_id(call)
    plan = _decode(call.form.get("plan", ""))
    with call.cluster.client() as client:
        groups = GroupAdmin(client)
        state = groups.describe_group(name).state
        if state not in RESETTABLE:
            raise BadRequest(f"group {name} is {state}: it has members now")
        groups.commit_offsets(name, plan)
    return call.redirect("/group", id=name, reset=len(plan))


def _encode(plan: Plan) -> str:
    rows = [(where.topic, where.partition, offset) for where, offset in sorted(plan.items())]
    return msgspec.json.encode(rows).decode()


def _decode(text: str) -> Plan:
    try:
        rows = msgspec.json.decode(text, type=list[tuple[str, int, int]])
    except msgspec.DecodeError:
        raise BadRequest("the plan cannot be read; make it again") from None
    if not 0 < len(rows) <= MOST_PARTITIONS or any(offset < 0 for _, _, offset in rows):
        raise BadRequest("the plan is empty; make it again")
    return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}


def _partitions(
    client: Client, committed: Mapping[TopicPartition, CommittedOffset], topic: str
) -> list[TopicPartition]:
    if topic:
        return client.led(Admin(client).partitions(topic))
    found = client.led(committed)
    if not found:
        raise BadRequest("the group has committed no offsets that could be reset; name a topic")
    return found


def _plan(
    client: Client,
    partitions: Sequence[TopicPartition],
    target: str,
    at: str,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> Plan:
    admin = Admin(client)

    def offsets(spec: int) -> Plan:
        found = admin.list_offsets(dict.fromkeys(partitions, spec))
        return {where: found[where].offset for where in partitions}

    starts, ends = offsets(EARLIEST), offsets(LATEST)
    match target:
        case "earliest":
            wanted = starts
        case "latest":
            wanted = ends
        case "time":
            found = offsets(read_time(at))
            wanted = {where: one if one >= 0 else ends[where] for where, one in found.items()}
        case "offset" | "shift":
            number = _number(at)
            wanted = {
                where: number if target == "offset" else committed[where].offset + number
                for where in partitions
                if target == "offset" or where in committed
            }
        case _:
            raise BadRequest(f"to must be one of {', '.join(TARGETS)}")
    # An offset that the partition does not have becomes the nearest one that it has.
    return {where: min(max(one, starts[where]), ends[where]) for where, one in wanted.items()}


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise BadRequest("enter a number")
    return int(text)
