from ottla.cli.silence import Silence


def test_what_is_short_is_not_worth_a_word() -> None:
    silence = Silence("a:1", 5)
    silence.asked(10)
    assert silence.line(14.9) is None
    assert silence.answered() is None
    assert silence.line(20) is None


def test_a_long_silence_is_reported_once_and_so_is_its_end() -> None:
    silence = Silence("a:1", 5)
    for now in range(10, 15):
        silence.asked(now)
        silence.failed("lost the broker at a:1: Connection refused")
        assert silence.line(now) is None
    assert silence.line(15) == (
        "no answer from a:1 for 5 seconds (lost the broker at a:1: Connection refused); "
        "still trying"
    )
    assert silence.line(16) is None
    assert silence.answered() == "a:1 is responding again"
    assert silence.answered() is None


def test_the_next_silence_is_told_again() -> None:
    silence = Silence("a:1", 5)
    for began in (0, 100):
        silence.asked(began)
        assert silence.line(began + 5) == "no answer from a:1 for 5 seconds; still trying"
        assert silence.answered() == "a:1 is responding again"


def test_who_does_not_ask_waits_for_nobody() -> None:
    silence = Silence("a:1", 5)
    silence.asked(0)
    silence.answered()
    assert silence.line(1000) is None
