import pytest

from ottla.audit.events import Event, Tier
from tests.audit.telling import event, produced


def test_an_event_survives_the_wire() -> None:
    told = produced({(0, 10): 3}, (5, 8), open=True, interval_ms=1000)
    assert Event.decode(told.encode()) == told


def test_a_chain_stays_in_one_partition_of_the_audit_topic() -> None:
    first, second = (event(Tier.CONSUMER, sequence=number) for number in (1, 2))
    assert first.key() == second.key() == b"consumer/i/t"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"hello",
        b"[]",
        b'{"tier":"producer"}',
        produced({(0, 0): -1}, None).encode(),
        produced({(10, 0): 1}, None).encode(),
        event(Tier.BROKER, sequence=5, next=4).encode(),
        event(Tier.BROKER).encode().replace(b'"window_ms":10', b'"window_ms":0'),
        event(Tier.BROKER).encode().replace(b'"broker"', b'"teapot"'),
        event(Tier.BROKER).encode().replace(b'"window_ms":10', b'"window_ms":9e99'),
    ],
)
def test_what_is_no_event_is_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError, match="not an audit event"):
        Event.decode(value)


def test_fields_of_the_future_are_passed_over() -> None:
    told = event(Tier.BROKER)
    assert Event.decode(told.encode()[:-1] + b',"colour":"blue"}') == told
