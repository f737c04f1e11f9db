import pytest

from ottla.config.topic_names import check_topic_name, collision_key, topic_name_problem
from ottla.wire.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "-", "x" * 249, "__consumer_offsets"])
def test_a_legal_name_is_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a\x00", "٣"])
def test_an_illegal_name_is_refused(name: str) -> None:
    assert topic_name_problem(name)
    with pytest.raises(KafkaError, match="Topic name is invalid") as raised:
        check_topic_name(name)
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") == "a_b_c"
    assert collision_key("a-b") is None
