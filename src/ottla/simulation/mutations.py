"""The brokers' code, broken on purpose: what a simulation finds, and what it does not.

Rules kept here:
1. A mutation changes the text of one function of the real code, in the process of one seed.
2. A text that is not there any more is an error: the mutation has to follow the code.
3. Each says which promise it breaks. Those of `LOSSES` are data losses that Ottla once had.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from typing import Any, Final, NamedTuple


class Mutation(NamedTuple):
    """One rule that is not kept."""

    name: str
    what: str
    where: str
    """module:Class.function"""
    old: str
    new: str

    def apply(self) -> None:
        """Replace the function by its mutant."""
        module_name, _, path = self.where.partition(":")
        module = importlib.import_module(module_name)
        owner: Any = module
        *classes, function = path.split(".")
        for name in classes:
            owner = getattr(owner, name)
        plain = inspect.unwrap(inspect.getattr_static(owner, function))
        kind = type(plain)
        target = plain.__func__ if kind in (staticmethod, classmethod) else plain
        if kind is property:
            target = plain.fget
        source = textwrap.dedent(inspect.getsource(target))
        if self.old not in source:
            raise LookupError(f"{self.name}: {self.where} has no {self.old!r}")
        names: dict[str, Any] = {}
        code = "from __future__ import annotations\n" + source.replace(self.old, self.new)
        exec(compile(code, f"<{self.name}>", "exec"), module.__dict__, names)
        setattr(owner, function, names[function])
        for user in [one for name, one in sys.modules.items() if name.startswith("ottla")]:
            if getattr(user, function, None) is plain:
                setattr(user, function, names[function])


LOSSES: Final = (
    Mutation(
        "copies-newer-epochs",
        "a follower takes batches of a newer epoch than the one it fetched for",
        "ottla.log.follower_append:append_as_follower",
        "each[1].leader_epoch <= leader_epoch",
        "True",
    ),
    Mutation(
        "empty-disk-leads",
        "a broker that comes back with an empty disk counts as the member that it was",
        "ottla.metadata.elections:kept",
        "if before is None or now is None or before == now:",
        "if True:",
    ),
    Mutation(
        "truncates-what-is-committed",
        "a follower truncates below its own high watermark",
        "ottla.replication.follower:Following.answered",
        "may_cut = lacks_nothing or self.may_lose",
        "may_cut = True",
    ),
)

RULES: Final = (
    Mutation(
        "forgets-removed-members",
        "a member that is to leave the ISR does not count while the change is on its way",
        "ottla.replication.replicas:Leadership._weigh",
        "maximal = dict(self.isr)",
        "maximal = dict(self._in_flight.isr if self._in_flight else self.isr)",
    ),
    Mutation(
        "forgets-added-members",
        "a member that is being added does not count before its change is made",
        "ottla.replication.replicas:Leadership._weigh",
        "for change in changes:",
        "for change in ():",
    ),
    Mutation(
        "ignores-epochs-of-fetches",
        "a follower of an older or newer term is believed",
        "ottla.replication.replicas:Leadership.check_fetch",
        "if leader_epoch < self.leader_epoch:",
        "leader_epoch = self.leader_epoch\n    if leader_epoch < self.leader_epoch:",
    ),
    Mutation(
        "ignores-broker-epochs",
        "a follower that has restarted since is believed",
        "ottla.replication.replicas:Leadership.check_fetch",
        "if broker_epoch < max(",
        "if False and broker_epoch < max(",
    ),
    Mutation(
        "counts-outside-the-isr",
        "the high watermark does not wait for slow members of the ISR",
        "ottla.replication.replicas:Leadership._advance",
        "if position.end < lowest:",
        "if position.end < lowest and position.end >= self.high_watermark + 3:",
    ),
    Mutation(
        "acknowledges-before-commit",
        "acks=all is acknowledged before the followers have the records",
        "ottla.replication.replicas:Leadership.acknowledgement",
        "if self.high_watermark < offset:",
        "if self.high_watermark < offset - 5:",
    ),
    Mutation(
        "joins-too-early",
        "a follower joins the ISR below the high watermark",
        "ottla.replication.replicas:Leadership.may_join",
        "and position.end >= max(self.high_watermark, self.epoch_start)",
        "and position.end >= 0",
    ),
    Mutation(
        "takes-unknown-for-refused",
        "an ISR change without an answer counts as refused",
        "ottla.replication.replicas:Leadership.unknown",
        "self._undecided.append(proposal)",
        "self._weigh()",
    ),
    Mutation(
        "truncates-nothing",
        "a follower keeps what its leader does not have",
        "ottla.replication.follower:Following.answered",
        "if answer.diverging is not None:",
        "if False:",
    ),
    Mutation(
        "truncates-too-far",
        "a follower truncates to the high watermark, and below",
        "ottla.replication.follower:Following.answered",
        "offset = truncation_offset(answer.diverging, log_end, epochs)",
        "offset = max(0, high_watermark - 4); high_watermark = 0",
    ),
    Mutation(
        "believes-older-answers",
        "an answer to a fetch of an earlier term or position is taken",
        "ottla.replication.follower:Following.answered",
        "if fetch.leader_epoch != self.leader_epoch or fetch.offset != log_end:",
        "if False:",
    ),
    Mutation(
        "lease-for-ever",
        "a broker without its session goes on answering",
        "ottla.replication.lease:Lease.held",
        "return self._until is not None and now < self._until",
        "return True",
    ),
)

MUTATIONS: Final = (*LOSSES, *RULES)


def find(name: str) -> Mutation:
    """One by its name; raises KeyError."""
    return {each.name: each for each in MUTATIONS}[name]
