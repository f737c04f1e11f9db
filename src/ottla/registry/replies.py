"""The JSON of Confluent's REST interface: bodies of requests and replies."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ottla.registry.errors import RegistryError
from ottla.registry.model import AVRO, Config, Extra, Reference, Schema, Version, parse_level

T = TypeVar("T")
Json = dict[str, Any]


class SchemaBody(Struct, rename="camel"):
    """A schema in a request."""

    schema: str | None = None
    schema_type: str | None = None
    references: list[Reference] | None = None
    metadata: Extra | None = None
    rule_set: Extra | None = None
    id: int | None = None
    version: int | None = None

    def schema_value(self) -> Schema:
        """The schema itself."""
        return Schema(
            self.schema or "",
            (self.schema_type or AVRO).upper(),
            tuple(self.references or ()),
            self.metadata,
            self.rule_set,
        )


class ConfigBody(Struct, rename="camel"):
    """Settings in a request."""

    compatibility: str | None = None
    normalize: bool | None = None
    alias: str | None = None
    validate_fields: bool | None = None
    compatibility_group: str | None = None
    default_metadata: Extra | None = None
    override_metadata: Extra | None = None
    default_rule_set: Extra | None = None
    override_rule_set: Extra | None = None

    def config(self) -> Config:
        """The change; 42203 where it is no level, or nothing at all."""
        others = {
            name: getattr(self, name)
            for name in Config.__struct_fields__
            if name != "compatibility_level"
        }
        if self.compatibility is None and all(value is None for value in others.values()):
            parse_level("")
        level = None if self.compatibility is None else parse_level(self.compatibility).value
        return Config(compatibility_level=level, **others)


class ModeBody(Struct):
    """A mode in a request."""

    mode: str = ""


def parse_body(body: bytes, kind: type[T]) -> T:
    """The body of a request; 400 where it is not JSON, 422 where a field is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as problem:
        raise RegistryError(422, str(problem)) from None
    except (msgspec.DecodeError, RecursionError) as problem:
        raise RegistryError(400, f"The body is not valid JSON: {problem}") from None


def schema_reply(schema: Schema, text: str | None = None) -> Json:
    """A schema found by its id."""
    reply: Json = {}
    if schema.type != AVRO:
        reply["schemaType"] = schema.type
    reply["schema"] = schema.text if text is None else text
    return _with_extras(reply, schema)


def version_reply(version: Version, text: str | None = None) -> Json:
    """A version of a subject."""
    reply: Json = {"subject": version.subject, "version": version.version, "id": version.id}
    return reply | schema_reply(version.schema, text)


def _with_extras(reply: Json, schema: Schema) -> Json:
    if schema.references:
        reply["references"] = [msgspec.to_builtins(item) for item in schema.references]
    if schema.metadata is not None:
        reply["metadata"] = schema.metadata
    if schema.rule_set is not None:
        reply["ruleSet"] = schema.rule_set
    return reply


def changed_config_reply(config: Config) -> Json:
    """The answer to a change of settings: the change, with the name a request has for the level."""
    reply: Json = msgspec.to_builtins(config)
    level = reply.pop("compatibilityLevel", None)
    return reply if level is None else {"compatibility": level, **reply}
