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

    def _find(self) -> tuple[Any, str, Any]:
        """What has the function, its name, and the function."""
        module_name, _, path = self.where.partition(":")
        owner: Any = importlib.import_module(module_name)
        *classes, function = path.split(".")
        for name in classes:
            owner = getattr(owner, name)
        found = inspect.getattr_static(owner, function)
        return owner, function, found.fget if isinstance(found, property) else found

    def source(self) -> str:
        """The function's text as it is."""
        return textwrap.dedent(inspect.getsource(self._find()[2]))

    def mutant(self, source: str) -> str:
        """The text that it becomes."""
        return "from __future__ import annotations\n" + source.replace(self.old, self.new)

    def apply(self) -> None:
        """Replace the function by its mutant, also where it was imported by name."""
        owner, function, plain = self._find()
        source = self.source()
        if self.old not in source:
            raise LookupError(f"{self.name}: {self.where} has no {self.old!r}")
        names: dict[str, Any] = {}
        code = compile(self.mutant(source), f"<{self.name}>", "exec")
        exec(code, plain.__globals__, names)
        if isinstance(inspect.getattr_static(owner, function), property):
            setattr(owner, function, names[function])
            return
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
        "a broker without a session keeps answering",
        "ottla.replication.lease:Lease.held",
        "return self._until is not None and now < self._until",
        "return True",
    ),
    Mutation(
        "roles-are-not-checked",
        "a deposed controller's commits are accepted",
        "ottla.metadata.controller:check_role",
        "return Check(documents.CONTROLLER, image.controller_version)",
        'return Check("no/such/document", None)',
    ),
    Mutation(
        "forgets-epochs-between",
        "the end of an epoch is the log's end, whatever epochs came after it",
        "ottla.log.leader_epochs:LeaderEpochFileCache.end_offset_for",
        "if epoch == self.latest:",
        "if True:",
    ),
    Mutation(
        "reads-past-the-high-watermark",
        "readers get what is not committed",
        "ottla.broker.replicas.partition:Partition.readable_to",
        "return self.high_watermark",
        "return self.log.end_offset",
    ),
    Mutation(
        "reads-open-transactions",
        "read_committed goes to the high watermark, not to the last stable offset",
        "ottla.broker.replicas.partition:Partition.readable_to",
        "return min(self.high_watermark, self.log.last_stable_offset)",
        "return self.high_watermark",
    ),
    Mutation(
        "writes-duplicates",
        "a batch that is sent again is written again",
        "ottla.log.producers.states:ProducerStates.check",
        "if first_sequence != expected:",
        "if False:",
    ),
    Mutation(
        "coordinators-answer-at-once",
        "a coordinator's reply leaves before its records are committed",
        "ottla.broker.coordinators.shard_runner:ShardRunner._committed",
        "return self.partition.safe_offset >= self.partition.log.end_offset",
        "return True",
    ),
    Mutation(
        "markers-before-the-decision",
        "markers are written before the transaction's end is committed",
        "ottla.broker.coordinators.shard_runner:ShardRunner._execute_when_committed",
        "self.partition.log.end_offset,",
        "0,",
    ),
    Mutation(
        "believes-old-coordinators",
        "a marker of an earlier coordinator is taken",
        "ottla.log.producers.states:ProducerStates.check_marker",
        "if marker.coordinator_epoch < producer.coordinator_epoch:",
        "if False:",
    ),
    Mutation(
        "keeps-high-watermarks-after-power-loss",
        "high watermarks above what was flushed are believed after a power loss",
        "ottla.log.storage.folder:DataFolder._lower_high_watermarks",
        "if lowered != known:",
        "if False:",
    ),
    Mutation(
        "renames-are-not-synced",
        "a checkpoint's folder is not synced after the rename",
        "ottla.log.storage.files:Files.replace_file",
        "if sync:",
        "if False:",
    ),
    Mutation(
        "checkpoints-are-not-synced",
        "a checkpoint is renamed before its content is on disk",
        "ottla.log.storage.files:Files.write_file",
        "if sync:",
        "if False:",
    ),
    Mutation(
        "recovers-nothing",
        "a torn tail is not looked for after a crash",
        "ottla.log.storage.folder:DataFolder.read_checkpoint",
        "return offsets",
        "return {key: 1 << 40 for key in offsets} if 'recovery' in name else offsets",
    ),
    Mutation(
        "low-log-starts-pass",
        "a follower whose log does not reach the leader's log start keeps replicating",
        "ottla.replication.epochs:check_start",
        "offset < log_start",
        "False",
    ),
)

MUTATIONS: Final = (*LOSSES, *RULES)


def find(name: str) -> Mutation:
    """One by its name; raises KeyError."""
    return {each.name: each for each in MUTATIONS}[name]
