"""How often a password may be tried."""

from ottla.security.attempts import (
    MOST_BY_ADDRESS,
    MOST_BY_USER,
    REMEMBERED,
    WINDOW_SECONDS,
    Attempts,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_address_waits_after_many_failures_until_the_oldest_is_forgotten() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for number in range(MOST_BY_ADDRESS):
        assert attempts.wait("here", "alice") == 0
        attempts.failed("here", f"user-{number}")
        clock.now += 1
    assert attempts.wait("here", "alice") == WINDOW_SECONDS - MOST_BY_ADDRESS
    assert attempts.wait("there", "alice") == 0
    clock.now += WINDOW_SECONDS - MOST_BY_ADDRESS
    assert attempts.wait("here", "alice") == 0
    attempts.failed("here", "alice")
    assert attempts.wait("here", "alice") == 1


def test_a_user_waits_after_more_failures_from_many_addresses() -> None:
    attempts = Attempts(Clock())
    for number in range(MOST_BY_USER):
        assert attempts.wait("new", "alice") == 0
        attempts.failed(f"10.0.0.{number}", "alice")
    assert attempts.wait("new", "alice") == WINDOW_SECONDS
    assert attempts.wait("new", "bob") == 0


def test_a_success_forgets_failures() -> None:
    attempts = Attempts(Clock())
    for _ in range(MOST_BY_ADDRESS - 1):
        attempts.failed("here", "alice")
    attempts.succeeded("here", "alice")
    attempts.failed("here", "alice")
    assert attempts.wait("here", "alice") == 0


def test_memory_is_bounded() -> None:
    attempts = Attempts(Clock())
    for number in range(2 * REMEMBERED):
        attempts.failed(str(number), str(number))
    assert len(attempts._failures) <= REMEMBERED
