"""Confluent's REST interface: one handler for each path."""

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version as installed_version
from typing import Any, Final, TypeVar

import msgspec

from ottla.registry import decisions
from ottla.registry.errors import (
    RegistryError,
    invalid_version,
    no_subject_compatibility,
    no_subject_mode,
    version_not_found,
)
from ottla.registry.forwarding import Forwarder
from ottla.registry.http import RegistryApplication, RegistryCall
from ottla.registry.model import TYPES, Version, parse_mode
from ottla.registry.names import (
    ANY_CONTEXT,
    DEFAULT_CONTEXT,
    check_subject,
    context_name,
    has_prefix,
    qualify,
    split,
)
from ottla.registry.replies import (
    ConfigBody,
    Json,
    ModeBody,
    SchemaBody,
    changed_config_reply,
    parse_body,
    schema_reply,
    version_reply,
)
from ottla.registry.security import Users
from ottla.registry.service import Service
from ottla.registry.state import LATEST

T = TypeVar("T")
LARGEST_NUMBER: Final = 2**31 - 1


def application(service: Service, forwarder: Forwarder, users: Users | None) -> RegistryApplication:
    """The whole interface."""
    app = RegistryApplication(service, forwarder, users)
    for method, pattern, handler in (
        ("GET", "/schemas/ids/{id}", schema_by_id),
        ("GET", "/schemas/ids/{id}/schema", text_by_id),
        ("GET", "/schemas/ids/{id}/subjects", subjects_of_id),
        ("GET", "/schemas/ids/{id}/versions", versions_of_id),
        ("GET", "/schemas/types", schema_types),
        ("GET", "/schemas", schemas),
        ("GET", "/subjects", subjects),
        ("POST", "/subjects/{subject}", lookup),
        ("DELETE", "/subjects/{subject}", delete_subject),
        ("GET", "/subjects/{subject}/versions", versions),
        ("GET", "/subjects/{subject}/versions/{version}", version),
        ("DELETE", "/subjects/{subject}/versions/{version}", delete_version),
        ("GET", "/subjects/{subject}/versions/{version}/schema", text_of_version),
        ("GET", "/subjects/{subject}/versions/{version}/referencedby", referenced_by),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}", check_version),
        ("POST", "/compatibility/subjects/{subject}/versions", check_versions),
        ("GET", "/config", config),
        ("PUT", "/config", set_config),
        ("DELETE", "/config", delete_config),
        ("GET", "/config/{subject}", config),
        ("PUT", "/config/{subject}", set_config),
        ("DELETE", "/config/{subject}", delete_config),
        ("GET", "/mode", mode),
        ("PUT", "/mode", set_mode),
        ("GET", "/mode/{subject}", mode),
        ("PUT", "/mode/{subject}", set_mode),
        ("DELETE", "/mode/{subject}", delete_mode),
        ("GET", "/contexts", contexts),
        ("GET", "/v1/metadata/id", metadata_id),
        ("GET", "/v1/metadata/version", metadata_version),
        ("GET", "/", root),
    ):
        app.add(method, pattern, handler)
    app.add("POST", "/subjects/{subject}/versions", register, known=registered_already)
    return app


# Schemas --------------------------------------------------------------------------------------


async def schema_by_id(call: RegistryCall) -> object:
    """A schema by its id."""
    schema_id, context = _id(call), _context(call)
    schema = call.service.state.schema(schema_id, context)
    users = _readable_users(call, schema_id, context)
    text = await _formatted(call, users[0])
    reply = schema_reply(schema, text)
    if call.flag("fetchMaxId"):
        reply["maxId"] = call.service.state.highest_id(context)
    return reply


async def text_by_id(call: RegistryCall) -> object:
    """The schema alone."""
    users = _readable_users(call, _id(call), _context(call))
    return (await _formatted(call, users[0]) or users[0].schema.text).encode()


async def subjects_of_id(call: RegistryCall) -> object:
    """The subjects that have an id."""
    users = _readable_users(call, _id(call), _context(call))
    deleted = call.flag("deleted")
    names = dict.fromkeys(user.subject for user in users if deleted or not user.deleted)
    return _page(call, list(names))


async def versions_of_id(call: RegistryCall) -> object:
    """The subjects and versions that have an id."""
    users = _readable_users(call, _id(call), _context(call))
    deleted = call.flag("deleted")
    return _page(
        call,
        [
            {"subject": user.subject, "version": user.version}
            for user in users
            if deleted or not user.deleted
        ],
    )


async def schema_types(call: RegistryCall) -> object:
    """The schema languages."""
    return list(TYPES)


async def schemas(call: RegistryCall) -> object:
    """All versions of all subjects, or of some."""
    state = call.service.state
    found: list[Json] = []
    for subject in _listed(call):
        these = state.versions(subject, deleted=call.flag("deleted"))
        these = these[-1:] if call.flag("latestOnly") else these
        found += [version_reply(item) for item in these]
    return _page(call, found)


async def lookup(call: RegistryCall) -> object:
    """The version of a subject that has a schema."""
    body = parse_body(call.body, SchemaBody)
    found = await call.service.lookup(
        call.readable(call.scope),
        body.schema_value(),
        normalize=call.flag("normalize"),
        deleted=call.flag("deleted"),
    )
    return version_reply(found, await _formatted(call, found))


async def registered_already(call: RegistryCall) -> object:
    """The id of a schema that its subject has: no writer is needed for it."""
    body = parse_body(call.body, SchemaBody)
    if body.id is not None and body.id >= 0:
        return None
    subject = call.writable(call.scope)
    check_subject(subject)
    try:
        found = await call.service.lookup(
            subject, body.schema_value(), normalize=call.flag("normalize"), deleted=False
        )
    except RegistryError as problem:
        if problem.code in (40401, 40403):
            return None
        raise
    return {"id": found.id}


async def register(call: RegistryCall) -> object:
    """Register a schema."""
    body = parse_body(call.body, SchemaBody)
    wanted_id = body.id if body.id is not None and body.id >= 0 else None
    wanted_version = body.version if body.version and body.version > 0 else None
    found = await call.service.register(
        call.writable(call.scope),
        body.schema_value(),
        normalize=call.flag("normalize"),
        wanted_id=wanted_id,
        wanted_version=wanted_version,
    )
    return {"id": found}


# Subjects and versions ------------------------------------------------------------------------


async def subjects(call: RegistryCall) -> object:
    """The subjects."""
    state = call.service.state
    if call.flag("deletedOnly") or call.flag("deleted_only"):
        return _page(call, [name for name in _listed(call) if not state.versions(name)])
    deleted = call.flag("deleted")
    return _page(call, [name for name in _listed(call) if state.versions(name, deleted=deleted)])


async def delete_subject(call: RegistryCall) -> object:
    """Delete a subject."""
    service = call.service
    decide = partial(
        decisions.delete_subject,
        service.state,
        call.writable(call.scope),
        permanent=call.flag("permanent"),
    )
    return await service.change(decide)


async def versions(call: RegistryCall) -> object:
    """The versions of a subject."""
    state, subject = call.service.state, call.readable(call.scope)
    found = state.existing_versions(
        subject, deleted=call.flag("deleted") or call.flag("deletedOnly")
    )
    if call.flag("deletedOnly"):
        found = [item for item in found if item.deleted]
    return _page(call, [item.version for item in found])


async def version(call: RegistryCall) -> object:
    """One version of a subject."""
    found = _version(call)
    return version_reply(found, await _formatted(call, found))


async def text_of_version(call: RegistryCall) -> object:
    """The schema alone."""
    found = _version(call)
    return (await _formatted(call, found) or found.schema.text).encode()


async def referenced_by(call: RegistryCall) -> object:
    """The ids of the schemas that refer to a version."""
    found = _version(call)
    return _page(call, call.service.referring_ids(found.subject, found.version))


async def delete_version(call: RegistryCall) -> object:
    """Delete a version of a subject."""
    service = call.service
    decide = partial(
        decisions.delete_version,
        service.state,
        call.writable(call.scope),
        _number(call),
        permanent=call.flag("permanent"),
    )
    return await service.change(decide)


# Compatibility --------------------------------------------------------------------------------


async def check_version(call: RegistryCall) -> object:
    """Whether a schema is compatible with one version."""
    state, subject = call.service.state, call.readable(call.scope)
    number = _number(call)
    try:
        against = [state.version(subject, number)]
    except RegistryError:
        if number != LATEST:
            raise version_not_found(number) from None
        against = []
    return await _checked(call, subject, against)


async def check_versions(call: RegistryCall) -> object:
    """Whether a schema is compatible with the versions that its subject's level says."""
    return await _checked(call, call.readable(call.scope), None)


async def _checked(call: RegistryCall, subject: str, against: list[Version] | None) -> Json:
    service = call.service
    schema = parse_body(call.body, SchemaBody).schema_value()
    try:
        schema = await service.parsed(subject, schema, normalize=call.flag("normalize"))
        problems = await service.incompatibilities(subject, schema, against)
    except RegistryError as problem:
        if problem.code != 42201 or not call.flag("verbose"):
            raise
        return {"is_compatible": False, "messages": [problem.message]}
    reply: Json = {"is_compatible": not problems}
    if call.flag("verbose"):
        reply["messages"] = problems
    return reply


# Settings and modes ---------------------------------------------------------------------------


async def config(call: RegistryCall) -> object:
    """The settings of a subject, a context or everything."""
    state, scope = call.service.state, call.readable(call.scope)
    own = state.config(scope)
    if own is None and scope and not call.flag("defaultToGlobal"):
        raise no_subject_compatibility(scope)
    effective = state.effective_config(scope)
    if own is None or own.compatibility_level is None:
        own = msgspec.structs.replace(
            own or effective, compatibility_level=effective.compatibility_level
        )
    return own


async def set_config(call: RegistryCall) -> object:
    """Change settings."""
    service, scope = call.service, _changed_scope(call)
    change = parse_body(call.body, ConfigBody).config()
    await service.change(partial(decisions.set_config, service.state, scope, change))
    return changed_config_reply(change)


async def delete_config(call: RegistryCall) -> object:
    """Take settings back."""
    service, scope = call.service, call.writable(call.scope)
    return await service.change(partial(decisions.delete_config, service.state, scope))


async def mode(call: RegistryCall) -> object:
    """The mode of a subject, a context or everything."""
    state, scope = call.service.state, call.readable(call.scope)
    own = state.mode(scope)
    if own is None and scope and not call.flag("defaultToGlobal"):
        raise no_subject_mode(scope)
    return {"mode": own or state.effective_mode(scope)}


async def set_mode(call: RegistryCall) -> object:
    """Change a mode."""
    service, scope = call.service, _changed_scope(call)
    wanted = parse_mode(parse_body(call.body, ModeBody).mode)
    decide = partial(decisions.set_mode, service.state, scope, wanted, force=call.flag("force"))
    return {"mode": await service.change(decide)}


async def delete_mode(call: RegistryCall) -> object:
    """Take a mode back."""
    service, scope = call.service, call.writable(call.scope)
    return {"mode": await service.change(partial(decisions.delete_mode, service.state, scope))}


# The registry ---------------------------------------------------------------------------------


async def contexts(call: RegistryCall) -> object:
    """The contexts."""
    return _page(call, call.service.state.contexts())


async def metadata_id(call: RegistryCall) -> object:
    """What the registry is, for clients that ask."""
    clusters = {"kafka-cluster": "", "schema-registry-cluster": "schema-registry"}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def metadata_version(call: RegistryCall) -> object:
    """The version of the software."""
    return {"version": installed_version("ottla"), "commitId": ""}


async def root(call: RegistryCall) -> object:
    """Nothing, for those who look whether a registry is there."""
    return {}


# Parameters -----------------------------------------------------------------------------------


def _changed_scope(call: RegistryCall) -> str:
    scope = call.writable(call.scope)
    if split(scope).subject:
        check_subject(scope)
    return scope


def _id(call: RegistryCall) -> int:
    text = call.parameters["id"]
    if not (text.isascii() and text.isdigit() and int(text[:20]) <= LARGEST_NUMBER):
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(text)


def _number(call: RegistryCall) -> int:
    text = call.parameters["version"]
    if text in ("latest", "-1"):
        return LATEST
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) <= LARGEST_NUMBER):
        raise invalid_version(text)
    return int(text)


def _version(call: RegistryCall) -> Version:
    subject = call.readable(call.scope)
    return call.service.state.version(subject, _number(call), deleted=call.flag("deleted"))


def _context(call: RegistryCall) -> str:
    """The context that an id is looked up in: that of the parameter `subject`, or of the path."""
    named = split(call.query.get("subject", "")).context
    if named != DEFAULT_CONTEXT or call.context is None:
        return named
    return context_name(call.context)


def _readable_users(call: RegistryCall, schema_id: int, context: str) -> list[Version]:
    users = call.service.state.users(schema_id, context)
    readable = [user for user in users if call.user.may_read(user.subject)]
    if not readable:
        call.readable(users[0].subject)
    subject = call.query.get("subject", "")
    if split(subject).subject:
        wanted = qualify(subject, call.context)
        return [user for user in readable if user.subject == wanted] or readable
    return readable


def _listed(call: RegistryCall) -> list[str]:
    prefix = call.query.get("subjectPrefix")
    if call.context is not None:
        prefix = qualify(prefix or "", call.context)
    return [
        name
        for name in call.service.state.subjects()
        if has_prefix(name, ANY_CONTEXT if prefix is None else prefix) and call.user.may_read(name)
    ]


def _page(call: RegistryCall, items: Sequence[Any]) -> Sequence[Any]:
    offset, limit = max(call.number("offset", 0), 0), call.number("limit", -1)
    return items[offset:] if limit < 0 else items[offset : offset + limit]


async def _formatted(call: RegistryCall, found: Version) -> str | None:
    style = call.query.get("format")
    if not style:
        return None
    source = call.service.source(found.subject, found.schema)
    return await call.service.checker.format(found.schema.type, source, style)
