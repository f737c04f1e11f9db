"""Carries out the plan: finds who has a role, hurts, heals, and notes when.

Rules kept here:
1. Two faults at once have two victims. All faults of a step are healed before the next step.
2. Every fault's beginning and end is in the log, with the time of day.
3. A step's bound counts only if all replicas were in sync when it began: otherwise one victim more
   may be one too many.
4. A broker that ends though nobody told it to is a finding, unless its disk was full, or it was cut
   off from ZooKeeper while it started: it says so and ends, and is started again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faults.plan import ZOOKEEPER_ROLES, Fault, Kind, Role, Step
from faults.proxy import Mode
from faults.world import BROKERS, World

AFTERMATH_SECONDS = 1.0
"""How long after the last fault was healed its gaps are still looked for."""


@dataclass(frozen=True)
class Injected:
    """A step that was carried out, on the monotonic clock."""

    label: str
    began: float
    ended: float
    is_bounded: bool


class Injector:
    """Hurts one world."""

    def __init__(
        self, world: World, topics: Sequence[str], note: Callable[[str], None], probed: str
    ) -> None:
        self._world = world
        self._topics = topics
        self._probed = probed
        self._note = note
        self.now_doing = ""
        self.findings: list[str] = []

    def carry_out(self, step: Step) -> Injected:
        """Do what a step says, and undo it."""
        time.sleep(step.calm)
        world = self._world
        problem = world.not_in_sync(self._topics)
        victims = self._victims(step.faults)
        self.now_doing = f"{step.label} {victims}"
        self._note(f"begins: {step.label}{' (not in sync: ' + problem + ')' if problem else ''}")
        began = time.monotonic()
        begun: list[tuple[float, Fault, int]] = []
        try:
            for fault, victim in zip(step.faults, victims, strict=True):
                if begun:
                    time.sleep(step.apart)
                self._note(f"  {victim}: {fault}")
                self._hurt(fault, victim)
                begun.append((time.monotonic() + fault.seconds, fault, victim))
            for until, fault, victim in sorted(begun, key=lambda each: each[0]):
                time.sleep(max(0.0, until - time.monotonic()))
                self._note(f"  {victim}: end of {fault.kind}")
                self._heal(fault, victim)
            # Only now: alone, without the other one's disk or process, none of two can serve.
            for _, fault, victim in begun:
                if fault.role in ZOOKEEPER_ROLES:
                    world.revive_server(victim)
        finally:
            self.now_doing = ""
        for replaced in world.replace_damaged_servers():
            self._note(f"  ZooKeeper server {replaced} could not read its data and was replaced")
        if step.settle:
            world.until_in_sync(self._topics)
            self._note(f"  in sync {time.monotonic() - began:.1f} s after the beginning")
            time.sleep(AFTERMATH_SECONDS)
        self._look_for_the_dead()
        bounded = step.is_bounded(world.has_zookeeper) and not problem
        return Injected(step.label, began, time.monotonic(), bounded)

    def _look_for_the_dead(self) -> None:
        for number in range(BROKERS):
            gave_up_starting = self._world.gave_up_starting(number)
            if self._world.revive_broker(number) and not gave_up_starting:
                self._find(f"broker {number} ended by itself")

    def _find(self, finding: str) -> None:
        self._note(f"  FINDING: {finding}")
        self.findings.append(finding)

    def _victims(self, faults: tuple[Fault, ...]) -> list[int]:
        victims: list[int] = []
        taken: set[tuple[bool, int]] = set()
        for fault in faults:
            of_zookeeper = fault.role in ZOOKEEPER_ROLES
            victim = self._who(fault.role, fault.lot)
            while (of_zookeeper, victim) in taken:
                victim = (victim + 1) % BROKERS
            taken.add((of_zookeeper, victim))
            victims.append(victim)
        return victims

    def _who(self, role: Role, lot: int) -> int:
        world = self._world
        match role:
            case Role.LEADER:
                return max(0, world.leader(self._probed, lot % BROKERS))
            case Role.CONTROLLER:
                return max(0, world.controller())
            case Role.SERVER_LEADER:
                return world.zookeeper_leader()
            case Role.SERVER:
                return (world.zookeeper_leader() + 1 + lot % (BROKERS - 1)) % BROKERS
            case Role.BROKER:
                return lot % BROKERS

    def _hurt(self, fault: Fault, victim: int) -> None:
        world = self._world
        cut = Mode.SILENT if fault.silent else Mode.REFUSING
        if fault.role in ZOOKEEPER_ROLES:
            server = world.server(victim)
            match fault.kind:
                case Kind.KILL:
                    server.kill()
                case Kind.PAUSE:
                    server.pause()
                case Kind.CUT:
                    world.set_server(victim, cut)
                case Kind.DISK:
                    world.zookeeper_disks[victim].fill()
            return
        match fault.kind:
            case Kind.KILL:
                world.kill(victim)
            case Kind.STOP:
                world.stop(victim)
            case Kind.PAUSE:
                world.pause(victim)
            case Kind.CUT:
                world.set_front(victim, cut)
                world.set_store(victim, cut)
            case Kind.CUT_STORE:
                world.set_store(victim, cut)
            case Kind.CUT_FRONT:
                world.set_front(victim, cut)
            case Kind.DISK:
                world.disks[victim].fill()

    def _heal(self, fault: Fault, victim: int) -> None:
        world = self._world
        if fault.role in ZOOKEEPER_ROLES:
            match fault.kind:
                case Kind.KILL:
                    world.server(victim).start()
                case Kind.PAUSE:
                    world.server(victim).resume()
                case Kind.CUT:
                    world.set_server(victim, Mode.OPEN)
                case Kind.DISK:
                    world.zookeeper_disks[victim].free()
            return
        match fault.kind:
            case Kind.KILL | Kind.STOP:
                world.start(victim)
            case Kind.PAUSE:
                world.resume(victim)
            case Kind.CUT | Kind.CUT_STORE | Kind.CUT_FRONT:
                world.set_front(victim, Mode.OPEN)
                world.set_store(victim, Mode.OPEN)
            case Kind.DISK:
                world.disks[victim].free()
                if world.revive_broker(victim):
                    self._note(f"  {victim}: it had ended, and was started again")
