"""Plays a family's steps on both brokers, compares their replies, and shortens what failed.

Rules kept here:
1. A step is sent to both brokers before either reply is read. The next one is drawn when both are
   at rest.
2. Every difference is either in the table of `known`, or ends the run with the steps that led to
   it. Some known differences leave the brokers in different states: they end their round.
3. A seed gives the same rounds again. Replies that wait for other steps are compared by
   connection, so their exact moment does not count.
4. A failure is shortened by playing its round again without some of its steps, for as long as the
   same difference appears and time is left.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from compat.differential.known import KNOWN, Known
from compat.differential.plain import Plain, differences
from compat.differential.side import NO_REPLY, Raw, Reply, Side
from compat.differential.steps import PREFIX, Draft, Family, Step
from testkit.batches import now_ms

ROUND_STEPS = 120
QUIET_SECONDS = 0.02
"""How long the brokers are given to answer what may wait for other steps."""
AGREE_SECONDS = 5.0
"""How long one broker may take to give a waiting reply that the other one gave."""
SHORTEN_SECONDS = 90.0


class DifferenceError(Exception):
    """The brokers replied differently, and no entry of `known` explains it."""


@dataclass(frozen=True)
class Difference:
    """One value that differs."""

    step: Step
    path: str
    ottla: Plain
    kafka: Plain
    whole: Plain
    """The whole of Ottla's reply."""
    other: Plain
    """The whole of Kafka's."""

    @property
    def signature(self) -> tuple[object, ...]:
        """What stays the same when steps are left out."""
        path = "".join(letter for letter in self.path if not letter.isdigit())
        codes = (self.ottla, self.kafka) if path.endswith("error_code") else ()
        return type(self.step.request), path, *codes

    def __str__(self) -> str:
        where = f"{self.step}\n  {self.path or 'reply'}:\n"
        return f"{where}    Ottla {_shown(self.ottla)}\n    Kafka {_shown(self.kafka)}"


def _shown(value: Plain) -> str:
    text = repr(value)
    return text if len(text) < 1500 else text[:1500] + " ..."


class _RoundOverError(Exception):
    """A known difference after which the brokers' states differ."""


@dataclass
class Outcome:
    """What a run came to."""

    steps: int = 0
    rounds: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often each request got each error code: what the run has reached."""


class Driver:
    """Both brokers and one family of steps."""

    def __init__(self, ottla: Side, kafka: Side, family: type[Family], seed: int) -> None:
        self.ottla = ottla
        self.kafka = kafka
        self.family = family
        self.seed = seed
        self.outcome = Outcome()
        self._played = 0

    def run(self, steps: int, report: Callable[[Outcome], None] | None = None) -> Outcome:
        """Play at least so many steps; raise DifferenceError at the first difference."""
        for side in (self.ottla, self.kafka):
            side.find_coordinators()
        number = 0
        while self.outcome.steps < steps:
            self.play_round(number)
            number += 1
            if report is not None and number % 10 == 0:
                report(self.outcome)
        return self.outcome

    def play_round(self, number: int) -> None:
        """One round, drawn from the seed and its number."""
        family = self.family(Random(f"{self.seed}:{self.family.__name__}:{number}"), now_ms())
        played: list[Step] = []
        found = self._play(family, _drafts(family), played)
        self.outcome.rounds += 1
        if found:
            raise DifferenceError(self._account(number, family, played, found))

    def _play(
        self, family: Family | None, steps: Iterator[Draft | Step], played: list[Step]
    ) -> list[Difference]:
        """Play steps until the first difference that is not known."""
        self._played += 1
        prefix = f"r{self._played:05}."
        assert len(prefix) == len(PREFIX)
        for side in (self.ottla, self.kafka):
            side.begin(prefix)
        try:
            for draft in steps:
                step = draft.numbered(len(played)) if isinstance(draft, Draft) else draft
                if step.connection in self.kafka.waiting or step.connection in self.ottla.waiting:
                    continue
                played.append(step)
                replies, found = self._step(step)
                if family is not None:
                    self.outcome.steps += 1
                    for reply in replies:
                        self._count(reply)
                        if reply.message is not None:
                            family.learn(reply.step, reply.message)
                if found:
                    return found
        except _RoundOverError:
            pass
        return []

    def _step(self, step: Step) -> tuple[list[Reply], list[Difference]]:
        """One step on both; Kafka's replies, and what differs."""
        for side in (self.kafka, self.ottla):
            side.send(step)
        pairs: list[tuple[Reply | None, Reply | None]] = []
        if not step.may_wait:
            pairs.append((self.ottla.finish(step), self.kafka.finish(step)))
        if self.kafka.waiting or self.ottla.waiting:
            pairs += self._collect()
        found = []
        for ottla, kafka in pairs:
            about = kafka or ottla
            assert about is not None
            left = NO_REPLY if ottla is None else ottla.shown
            right = NO_REPLY if kafka is None else kafka.shown
            for path, ours, theirs in differences(left, right):
                found.append(Difference(about.step, path, ours, theirs, left, right))
        return [kafka for _, kafka in pairs if kafka], self._unexplained(found)

    def _collect(self) -> list[tuple[Reply | None, Reply | None]]:
        """Replies that waited and came: those of both brokers, connection by connection."""
        for side in (self.kafka, self.ottla):
            side.rest_of_groups()
        come: dict[str, dict[str, Raw]] = {self.ottla.name: {}, self.kafka.name: {}}
        deadline = time.monotonic() + AGREE_SECONDS
        quiet = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < deadline:
            for side in (self.kafka, self.ottla):
                for connection in list(side.waiting):
                    reply = side.receive(connection, 0.001)
                    if reply is not None:
                        come[side.name][connection] = reply
                        quiet = time.monotonic() + QUIET_SECONDS / 2
            agreed = come[self.ottla.name].keys() == come[self.kafka.name].keys()
            if agreed and time.monotonic() > quiet:
                break
        ottla = self.ottla.understand(come[self.ottla.name])
        kafka = self.kafka.understand(come[self.kafka.name])
        return [(ottla.get(name), kafka.get(name)) for name in sorted(ottla.keys() | kafka.keys())]

    def _unexplained(self, found: Sequence[Difference]) -> list[Difference]:
        left = []
        over = False
        for difference in found:
            known = _explanation(difference)
            if known is None:
                left.append(difference)
            else:
                self.outcome.explained[known.reason] += 1
                over = over or known.ends_round
        if over and not left:
            raise _RoundOverError
        return left

    def _count(self, reply: Reply) -> None:
        name = type(reply.step.request).__name__.removesuffix("Request")
        for code in set(_codes(reply.shown)) or {0}:
            self.outcome.seen[name, code] += 1

    # Failures -------------------------------------------------------------------------------

    def _account(
        self, number: int, family: Family, played: list[Step], found: list[Difference]
    ) -> str:
        steps, found = self._shorten(played, found)
        told = "\n".join(str(step) for step in steps)
        differing = "\n".join(str(difference) for difference in found)
        return (
            f"{type(family).__name__}, seed {self.seed}, round {number}: "
            f"{len(steps)} of {len(played)} steps lead to\n{differing}\nThe steps:\n{told}"
        )

    def _shorten(
        self, played: list[Step], found: list[Difference]
    ) -> tuple[list[Step], list[Difference]]:
        """The same difference with fewer steps, as far as time allows."""
        wanted = {difference.signature for difference in found}
        deadline = time.monotonic() + SHORTEN_SECONDS
        steps = played
        size = len(steps) // 2
        while size and time.monotonic() < deadline:
            at = 0
            while at < len(steps) and time.monotonic() < deadline:
                fewer = steps[:at] + steps[at + size :]
                trial: list[Step] = []
                again = self._play(None, iter(fewer), trial)
                if wanted & {difference.signature for difference in again}:
                    steps, found = trial, again
                else:
                    at += size
            size //= 2
        return steps, found


def _drafts(family: Family) -> Iterator[Draft | Step]:
    yield from family.opening()
    for _ in range(ROUND_STEPS):
        yield family.draw()
    yield from family.closing()


def _explanation(difference: Difference) -> Known | None:
    return next((known for known in KNOWN if known.covers(difference)), None)


def _codes(shown: Plain) -> Iterator[int]:
    if isinstance(shown, dict):
        for name, value in shown.items():
            if name.endswith("error_code"):
                yield value
            else:
                yield from _codes(value)
    elif isinstance(shown, list):
        for item in shown:
            yield from _codes(item)
