"""Members of a consumer group in processes of their own, watched from the outside.

Rules kept here:
1. Whatever is waited for has a deadline; past it, the error says what each member has seen.
2. Nothing of a member outlives the `with` block of its group.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from testkit.member_program import Task
from testkit.waiting import stretched

ROOT = Path(__file__).parent.parent
PATIENCE_SECONDS = 90.0


class MembersError(Exception):
    """The members of a group did not get where they should."""


class Member:
    """One process; what it has said so far."""

    def __init__(self, task: Task, news: threading.Condition) -> None:
        self.task = task
        self.partitions: list[int] = []
        self.assignments: list[list[int]] = []
        self.revocations: list[list[int]] = []
        self.values: list[str] = []
        self.committed = 0
        self._news = news
        self._may_end = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "testkit.member_program", msgspec.json.encode(task).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._complaints: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._hear_complaints, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_running(self) -> bool:
        """True if the process lives."""
        return self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """True if it ended without being told to."""
        return not self._may_end and not self.is_running

    @property
    def committed_values(self) -> list[str]:
        """Those that the broker has confirmed a commit for."""
        return self.values[: self.committed]

    def kill(self) -> None:
        """kill -9: the broker only sees the closed connection."""
        self._may_end = True
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """Let it leave its group and end."""
        assert self._process.stdin is not None
        self._may_end = True
        self._process.stdin.close()
        self._end()

    def _end(self) -> None:
        self._process.wait(PATIENCE_SECONDS)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._take(json.loads(line))
                self._news.notify_all()
        self._process.wait(PATIENCE_SECONDS)
        with self._news:
            self._news.notify_all()

    def _hear_complaints(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints.append(line)

    def _take(self, said: dict[str, list[int] | list[tuple[int, str]] | int | str]) -> None:
        event = said["event"]
        if event == "assigned":
            self.partitions = msgspec.convert(said["partitions"], list[int])
            self.assignments.append(self.partitions)
        elif event == "revoked":
            self.revocations.append(msgspec.convert(said["partitions"], list[int]))
        elif event == "records":
            records = msgspec.convert(said["records"], list[tuple[int, str]])
            self.values += [value for _, value in records]
        else:
            self.committed = msgspec.convert(said["count"], int)

    def __str__(self) -> str:
        state = "running" if self.is_running else f"ended with {self._process.poll()}"
        said = "".join(self._complaints[-5:])
        return f"{state}: partitions {self.partitions}, {len(self.values)} records {said}"


class Members:
    """The members that a test starts; the last one to leave takes all with it."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._all: list[Member] = []

    def start(self, task: Task) -> Member:
        """A new member."""
        member = Member(task, self._news)
        self._all.append(member)
        return member

    def wait(self, what: str, claim: Callable[[], bool]) -> None:
        """Wait until a claim about the members holds."""
        deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
        with self._news:
            while not claim():
                left = deadline - time.monotonic()
                failed = any(member.has_failed for member in self._all)
                if failed or left <= 0 or not self._news.wait(left):
                    seen = "\n".join(str(member) for member in self._all)
                    raise MembersError(f"{what} did not come:\n{seen}")

    def wait_for_partitions(self, members: list[Member], sizes: list[int]) -> None:
        """Wait until members own every partition once, in shares of these sizes."""
        whole = list(range(sum(sizes)))

        def divided() -> bool:
            owned = sorted(number for member in members for number in member.partitions)
            return owned == whole and sorted(len(m.partitions) for m in members) == sorted(sizes)

        self.wait(f"shares of {sizes}", divided)

    def wait_for_values(self, members: list[Member], values: set[str]) -> None:
        """Wait until members have read and committed all of these."""
        self.wait(
            f"{len(values)} values",
            lambda: values <= {value for member in members for value in member.committed_values},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self._all:
            if member.is_running:
                member.kill()
