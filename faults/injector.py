"""Carries out the plan: finds who has a role, hurts, heals, and notes when.

Rules kept here:
1. Two faults at once have two victims. All faults of a step are healed before the next step.
2. Every fault's beginning and end is in the log, with the time of day.
3. A step's bound counts only if all replicas were in sync when it began: otherwise one victim more
   may be one too many.
4. A broker that ends though nobody told it to is a finding, unless its disk was full, or it was cut
   off from ZooKeeper while it started: it says so and ends, and is started again; or the store was
   an older one.
5. A disk or folder is taken away only where all replicas are in sync. Afterwards the victim leads
   all that it has, alone, before the others return: what it lacks would be lost.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faults.operator import Operator
from faults.plan import OF_OPERATORS, ZOOKEEPER_ROLES, Fault, Kind, Role, Step
from faults.replicas import Watch
from faults.world import BROKERS, SESSION_SECONDS, World
from testkit.proxy import Mode
from testkit.waiting import until

AFTERMATH_SECONDS = 1.0
"""How long after the last fault was healed its gaps are still looked for."""
LEADS_WITHIN_SECONDS = 4 * SESSION_SECONDS
SEES_THE_STORE_WITHIN_SECONDS = 30.0
EMPTIED = (Kind.EMPTY, Kind.REMOVED)
COPIED_ANEW = (*EMPTIED, Kind.EMPTY_ALL, Kind.REASSIGN)


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
        self,
        world: World,
        topics: Callable[[], Sequence[str]],
        note: Callable[[str], None],
        probed: str,
        operator: Operator,
        watch: Watch,
    ) -> None:
        self._world = world
        self._topics = topics
        self._operator = operator
        self._watch = watch
        self._probed = probed
        self._note = note
        self.now_doing = ""
        self.findings: list[str] = []

    def carry_out(self, step: Step) -> Injected:
        """Do what a step says, and undo it."""
        time.sleep(step.calm)
        world = self._world
        problem = world.not_in_sync(self._topics())
        alone = len(step.faults) == 1
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
                if fault.kind in OF_OPERATORS:
                    self._operator.begin(fault, alone=alone, note=self._note)
                else:
                    self._hurt(fault, victim, not problem)
                begun.append((time.monotonic() + fault.seconds, fault, victim))
            for until, fault, victim in sorted(begun, key=lambda each: each[0]):
                time.sleep(max(0.0, until - time.monotonic()))
                self._note(f"  {victim}: end of {fault.kind}")
                if fault.kind not in OF_OPERATORS:
                    self._heal(fault, victim)
            # Only now: alone, without the other one's disk or process, none of two can serve.
            for _, fault, victim in begun:
                if fault.role in ZOOKEEPER_ROLES:
                    world.revive_server(victim)
            self._operator.finish()
        finally:
            self.now_doing = ""
        for replaced in world.replace_damaged_servers():
            self._note(f"  ZooKeeper server {replaced} could not read its data and was replaced")
        if step.settle:
            world.until_in_sync(self._topics())
            self._note(f"  in sync {time.monotonic() - began:.1f} s after the beginning")
            time.sleep(AFTERMATH_SECONDS)
        self._look_for_the_dead()
        bounded = step.is_bounded(world.has_zookeeper) and not problem
        ended = time.monotonic()
        if step.settle:
            self._look_at_replicas(step)
            for fault, victim in zip(step.faults, victims, strict=True):
                if fault.kind in EMPTIED and fault.silent:
                    self._let_lead(victim)
        return Injected(step.label, began, ended, bounded)

    def _look_at_replicas(self, step: Step) -> None:
        again = any(fault.kind in COPIED_ANEW for fault in step.faults)
        for finding in self._watch.look(all_of_it=again):
            self._find(f"after {step.label}: {finding}")

    def _let_lead(self, victim: int) -> None:
        """Kill the others, so that the victim must lead with what it has."""
        world = self._world
        others = [number for number in range(BROKERS) if number != victim]
        self._note(f"  {victim}: must lead alone; kill -9 of {others}")
        for number in others:
            world.kill(number)
        try:
            until(lambda: world.leader(self._probed, 0) == victim, "it leads", LEADS_WITHIN_SECONDS)
        except TimeoutError:
            self._find(f"broker {victim} was in sync and does not lead after the others' death")
        for number in others:
            world.start(number)
        world.until_in_sync(self._topics())
        for finding in self._watch.look(all_of_it=True):
            self._find(f"after broker {victim} led alone: {finding}")

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
            case Role.BROKER | Role.CLUSTER:
                return lot % BROKERS

    def _hurt(self, fault: Fault, victim: int, in_sync: bool) -> None:
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
        if fault.kind in EMPTIED or fault.role is Role.CLUSTER:
            self._take_away(fault, victim, in_sync)
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
            case Kind.CLOCK:
                world.step_clock(victim, fault.clock_step)

    def _take_away(self, fault: Fault, victim: int, in_sync: bool) -> None:
        world = self._world
        everyone = fault.kind in (Kind.KILL_ALL, Kind.EMPTY_ALL)
        if fault.kind is Kind.RESTORE:
            chosen = world.backups.put_older(newest=fault.silent)
            self._note(f"  ZooKeeper has its {chosen} backup")
            return
        if fault.kind is Kind.REMOVED and fault.silent:
            world.stop(victim)
        else:
            for number in range(BROKERS) if everyone else [victim]:
                world.kill(number)
        if fault.kind is Kind.KILL_ALL:
            return
        if not in_sync:
            self._note("  not all are in sync: nothing is taken away")
        elif fault.kind is Kind.REMOVED:
            self._note(f"  removed {', '.join(world.remove_folders(victim, fault.lot % BROKERS))}")
        else:
            world.empty_disk(victim)
        if everyone:
            world.start(victim)

    def _give_back_store(self) -> None:
        world = self._world
        world.backups.put_current()
        for number in range(BROKERS):
            if world.revive_broker(number):
                self._note(f"  {number}: it had ended, and was started again")
        try:
            world.until_in_sync(self._topics(), SEES_THE_STORE_WITHIN_SECONDS)
        except TimeoutError as problem:
            self._note(f"  {problem}: all brokers are restarted")
            for number in range(BROKERS):
                world.kill(number)
                world.start(number)

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
            case Kind.KILL | Kind.STOP | Kind.EMPTY | Kind.REMOVED:
                world.start(victim)
            case Kind.KILL_ALL | Kind.EMPTY_ALL:
                for number in range(BROKERS):
                    world.start(number)
            case Kind.RESTORE:
                self._give_back_store()
            case Kind.CLOCK:
                world.step_clock(victim, 0.0)
            case Kind.PAUSE:
                world.resume(victim)
            case Kind.CUT | Kind.CUT_STORE | Kind.CUT_FRONT:
                world.set_front(victim, Mode.OPEN)
                world.set_store(victim, Mode.OPEN)
            case Kind.DISK:
                world.disks[victim].free()
                if world.revive_broker(victim):
                    self._note(f"  {victim}: it had ended, and was started again")
