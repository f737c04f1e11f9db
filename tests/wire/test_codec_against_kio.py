"""kio's codecs as the oracle: both write the same bytes, and read the same values from them."""

import io
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.protocol import Entity

from ottla.wire.codec import decode, encode
from ottla.wire.message import NO_UUID, Message, Part

from .every_message import MESSAGES, as_in_version, messages_of, versions_of

FEW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DATA_SCHEMAS = {
    "ConsumerProtocolAssignment": "consumer_protocol_assignment",
    "ConsumerProtocolSubscription": "consumer_protocol_subscription",
}


def kio_class(cls: type[Message], version: int) -> type[Entity]:
    if cls.API_KEY < 0:
        return load_entity_schema(DATA_SCHEMAS[cls.__name__], version, EntityType.data)
    is_request = cls.__name__.endswith("Request")
    return load_entity_schema(
        api_key_map[cls.API_KEY],
        version,
        EntityType.request if is_request else EntityType.response,
    )


def plain(value: object) -> object:
    """A value of kio's as ours would be."""
    match value:
        case timedelta():
            return round(value / timedelta(milliseconds=1))
        case datetime():
            return round(value.timestamp() * 1000)
        case Enum():
            return value.value
        case tuple():
            return [plain(item) for item in value]
        case _ if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def assert_same(ours: Part, theirs: object, version: int) -> None:
    """Compare field by field what two readers made of the same bytes."""
    assert isinstance(theirs, dict)
    carried = [field for field in ours.FIELDS if field.is_in(version)]
    assert len(carried) == len(theirs)
    for field in carried:
        value = getattr(ours, field.name)
        other = theirs[field.name if field.name in theirs else field.name.removesuffix("_ms")]
        if isinstance(value, list) and not isinstance(field.type, str):
            for part, other_part in zip(value, other, strict=True):
                assert_same(part, other_part, version)
        elif isinstance(value, Part):
            assert_same(value, other, version)
        elif value == NO_UUID:
            assert other is None
        else:
            assert value == other, field


@pytest.mark.parametrize("cls", MESSAGES)
@FEW
@given(data=st.data())
def test_both_codecs_agree(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages_of(cls, for_kio=True))
    for version in versions_of(cls):
        ours = as_in_version(message, version)
        written = encode(ours, version)
        theirs_cls = kio_class(cls, version)
        theirs, size = entity_reader(theirs_cls)(written, 0)
        assert size == len(written)
        assert_same(ours, plain(theirs), version)
        with io.BytesIO() as buffer:
            entity_writer(theirs_cls)(buffer, theirs)
            assert buffer.getvalue() == written
        assert decode(cls, version, written) == ours
