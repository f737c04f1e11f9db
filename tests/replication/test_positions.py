"""When a follower was last caught up with its leader, which a place in the ISR depends on."""

from uuid import uuid4

from ottla.metadata.image import PartitionImage
from ottla.replication.replicas import FollowerPosition, Leadership

BEGAN = 1.0
ME, OTHER = 1, 2
LAG = 30.0


def test_a_follower_that_asks_at_the_end_is_caught_up_now() -> None:
    position = FollowerPosition(7, BEGAN)
    position.asks(10, 0, leader_end=10, now=5.0)
    assert position.caught_up_at == 5.0
    position.asks(11, 0, leader_end=10, now=6.0)
    assert position.caught_up_at == 6.0


def test_a_follower_that_has_all_there_was_at_its_last_fetch_was_caught_up_then() -> None:
    position = FollowerPosition(7, BEGAN)
    position.asks(0, 0, leader_end=10, now=5.0)
    assert position.caught_up_at == BEGAN
    position.asks(10, 0, leader_end=20, now=6.0)
    assert position.caught_up_at == 5.0
    position.asks(19, 0, leader_end=30, now=7.0)
    assert position.caught_up_at == 5.0
    position.asks(30, 3, leader_end=40, now=8.0)
    assert (position.caught_up_at, position.end, position.log_start) == (7.0, 30, 3)


def test_what_is_known_of_when_it_was_caught_up_does_not_go_back() -> None:
    position = FollowerPosition(7, BEGAN)
    position.asks(10, 0, leader_end=10, now=5.0)
    position.asks(10, 0, leader_end=12, now=4.0)
    assert position.caught_up_at == 5.0


def test_a_follower_outside_of_the_isr_has_not_kept_up_before_its_first_fetch() -> None:
    state = PartitionImage("t", 0, uuid4(), ME, 0, [ME], 0, 0, [5])
    leadership = Leadership(
        ME,
        state,
        [ME, OTHER],
        log_end=10,
        high_watermark=10,
        min_isr=1,
        lag=LAG,
        now=100.0,
    )
    unheard = leadership.position(OTHER)
    assert unheard is not None
    assert unheard.caught_up_at < 100.0 - LAG
    leadership.fetched(OTHER, 7, 3, 0, now=200.0)
    heard = leadership.position(OTHER)
    assert heard is not None
    assert heard.caught_up_at < 200.0 - LAG
