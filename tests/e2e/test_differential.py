"""The machinery of the differential run, on two Ottlas; `make compat` runs it beside Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.differential import driver, side
from compat.differential.driver import DifferenceError, Driver
from compat.differential.names import Names
from compat.differential.section import FAMILIES, SETTINGS
from compat.differential.side import Side
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from testkit.process import BrokerProcess

STEPS = 100
SEED = 3


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    folder: Path = tmp_path_factory.mktemp("pair")
    with (
        BrokerProcess(folder / "one", SETTINGS) as one,
        BrokerProcess(folder / "other", SETTINGS) as other,
    ):
        yield Side("Ottla", one.bootstrap), Side("the other", other.bootstrap)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_broker_does_not_differ_from_its_like(pair: tuple[Side, Side], family: str) -> None:
    outcome = Driver(*pair, FAMILIES[family], SEED).run(STEPS)
    assert outcome.steps >= STEPS
    assert not outcome.explained


def test_a_difference_is_reported_with_the_few_steps_that_lead_to_it(
    pair: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker's replies to ListOffsets are changed on their way."""
    ottla, other = pair
    understand = side.Side._understand

    def changed(self: Side, raw: side.Raw) -> side.Reply:
        reply = understand(self, raw)
        if self is ottla and reply.shown.get("topics") and "isolation_level" in repr(raw.step):
            reply.shown["topics"] = "another"
        return reply

    monkeypatch.setattr(side.Side, "_understand", changed)
    monkeypatch.setattr(driver, "SHORTEN_SECONDS", 10.0)
    with pytest.raises(DifferenceError, match=r"1 of \d+ steps lead to") as caught:
        Driver(ottla, other, FAMILIES["reads"], SEED).run(1_000)
    assert "ListOffsetsRequest" in str(caught.value)
    assert "seed 3" in str(caught.value)


def test_members_are_known_by_the_step_that_made_them_and_not_by_their_place() -> None:
    """Two brokers that list members in another order get the same canonical reply."""

    def reply(own: str, other: str, *order: str) -> JoinGroupResponse:
        members = [JoinGroupResponseMember(member_id=name) for name in order]
        return JoinGroupResponse(member_id=own, leader=own, members=members)

    seen = []
    for own, other, order in (("x1", "x2", ("x1", "x2")), ("y1", "y2", ("y2", "y1"))):
        names = Names("r00001.")
        names.meet(reply(other, other), 4)
        leaders = reply(own, other, *order)
        names.meet(leaders, 5)
        canonical = names.canonical(leaders, 5)
        listed = sorted(member.member_id for member in canonical.members)
        seen.append((canonical.member_id, canonical.leader, listed))
    assert seen[0] == seen[1]
