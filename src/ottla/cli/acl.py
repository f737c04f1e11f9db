"""`ottla acl`: who may do what, and which rule decides."""

from typing import TYPE_CHECKING

import click

from ottla.cli.options import bootstrap_option, connect, json_option
from ottla.cli.output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.security.acls import Acl, AclFilter
    from ottla.security.operations import PatternType, Permission, ResourceType

OPERATIONS = {
    "all": "All operations.",
    "read": "Consume from topics; join groups and commit offsets.",
    "write": "Produce to topics; use transactional ids.",
    "create": "Create topics.",
    "delete": "Delete topics, records and groups.",
    "alter": "Add partitions; change ACLs, users and reassignments.",
    "describe": "List and describe; read, write, delete and alter include it.",
    "cluster-action": "Act as a broker.",
    "describe-configs": "Show settings and quotas.",
    "alter-configs": "Change settings and quotas.",
    "idempotent-write": "Produce with idempotence; write on a topic includes it.",
    "two-phase-commit": "Use two-phase commit in transactions (KIP-939).",
}
TYPES = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional-id": "TRANSACTIONAL_ID",
    "cluster": "CLUSTER",
}


def _resources(function: "Callable[..., object]") -> "Callable[..., object]":
    for option, what in (
        ("--topic", "Topic. NAME* matches all that begin with NAME; * matches all."),
        ("--group", "Consumer group; patterns as for --topic."),
        ("--transactional-id", "Transactional id; patterns as for --topic."),
    ):
        function = click.option(option, multiple=True, metavar="NAME", help=what)(function)
    return click.option("--cluster", is_flag=True, help="The cluster as a whole.")(function)


def _operations(function: "Callable[..., object]") -> "Callable[..., object]":
    for name in reversed(OPERATIONS):
        option = click.option(
            f"--{name}", f"op_{name.replace('-', '_')}", is_flag=True, help=OPERATIONS[name]
        )
        function = option(function)
    return function


@click.group("acl")
def command() -> None:
    """Allow or deny operations; list, check and remove ACLs.

    \b
    Example:
      ottla acl allow alice --read --topic 'orders*' --group billing
      ottla acl check alice read topic:orders.eu
    """


@command.command("allow")
@click.argument("user")
@_operations
@_resources
@click.option("--host", default="*", show_default=True, help="Address of the client; * for all.")
@bootstrap_option
def allow(user: str, host: str, bootstrap: str, **wanted: object) -> None:
    """Allow a user to perform operations on resources.

    USER is a name, User:NAME, or * for all users.

    \b
    Example:
      ottla acl allow alice --read --write --topic orders
    """
    _create(user, host, bootstrap, wanted, "ALLOW")


@command.command("deny")
@click.argument("user")
@_operations
@_resources
@click.option("--host", default="*", show_default=True, help="Address of the client; * for all.")
@bootstrap_option
def deny(user: str, host: str, bootstrap: str, **wanted: object) -> None:
    """Deny a user operations on resources. A deny takes precedence over every allow.

    USER is a name, User:NAME, or * for all users.

    \b
    Example:
      ottla acl deny '*' --all --topic secrets
    """
    _create(user, host, bootstrap, wanted, "DENY")


def _create(
    user: str, host: str, bootstrap: str, wanted: "dict[str, object]", permission: str
) -> None:
    from ottla.client.security_admin import SecurityAdmin
    from ottla.security.operations import Permission

    acls = _acls(user, host, wanted, Permission[permission])
    with connect(bootstrap) as client:
        SecurityAdmin(client).create_acls(acls)
    for acl in acls:
        click.echo(f"created {acl}")


def _acls(
    user: str, host: str, wanted: "dict[str, object]", permission: "Permission"
) -> "list[Acl]":
    from ottla.security.acls import Acl
    from ottla.security.operations import Operation

    operations = [
        Operation[name.removeprefix("op_").upper()]
        for name, is_set in wanted.items()
        if name.startswith("op_") and is_set
    ]
    patterns = _patterns(wanted)
    if not operations:
        raise click.UsageError("name at least one operation, such as --read.")
    if not patterns:
        raise click.UsageError("name at least one resource, such as --topic orders.")
    return [
        Acl(*pattern, _principal(user), host, operation, permission)
        for pattern in patterns
        for operation in operations
    ]


def _patterns(wanted: "dict[str, object]") -> "list[tuple[ResourceType, str, PatternType]]":
    from ottla.security.operations import CLUSTER_NAME, PatternType, ResourceType

    found: list[tuple[ResourceType, str, PatternType]] = []
    for kind in ("topic", "group", "transactional_id"):
        names = wanted.get(kind) or ()
        assert isinstance(names, tuple)
        for name in names:
            is_prefix = name.endswith("*") and name != "*"
            pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
            text = name[:-1] if is_prefix else name
            found.append((ResourceType[kind.upper()], text, pattern))
    if wanted.get("cluster"):
        found.append((ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return found


def _principal(user: str) -> str:
    return user if ":" in user else f"User:{user}"


@command.command("list")
@click.option("--user", help="Only ACLs of this user.")
@_resources
@bootstrap_option
@json_option
def list_acls(user: str | None, bootstrap: str, as_json: bool, **wanted: object) -> None:
    """List ACLs; with a resource, all that apply to it.

    \b
    Example:
      ottla acl list --topic orders
    """
    from ottla.client.security_admin import SecurityAdmin

    with connect(bootstrap) as client:
        admin = SecurityAdmin(client)
        found = {acl for each in _filters(user, wanted, match=True) for acl in admin.acls(each)}
    _show(sorted(found), as_json)


def _filters(user: str | None, wanted: "dict[str, object]", *, match: bool) -> "list[AclFilter]":
    from ottla.security.acls import AclFilter
    from ottla.security.operations import PatternType

    principal = None if user is None else _principal(user)
    patterns = _patterns(wanted)
    if not patterns:
        return [AclFilter(principal=principal)]
    return [
        AclFilter(kind, name, PatternType.MATCH if match else pattern, principal)
        for kind, name, pattern in patterns
    ]


def _show(acls: "Sequence[Acl]", as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "permission": acl.permission.name,
                    "principal": acl.principal,
                    "host": acl.host,
                    "operation": acl.operation.name,
                    "resource_type": acl.resource_type.name,
                    "pattern_type": acl.pattern_type.name,
                    "name": acl.name,
                }
                for acl in acls
            ]
        )
    elif not acls:
        click.echo("no ACLs")
    else:
        print_table(
            ("PERMISSION", "PRINCIPAL", "HOST", "OPERATION", "RESOURCE", "NAME", "PATTERN"),
            [
                (
                    acl.permission.name,
                    acl.principal,
                    acl.host,
                    acl.operation.name,
                    acl.resource_type.name,
                    acl.name,
                    acl.pattern_type.name,
                )
                for acl in acls
            ],
        )


@command.command("remove")
@click.option("--user", help="Only ACLs of this user.")
@_resources
@click.option("--everything", is_flag=True, help="Remove all ACLs of the cluster.")
@bootstrap_option
def remove(user: str | None, everything: bool, bootstrap: str, **wanted: object) -> None:
    """Remove ACLs of a user, of resources, or of both.

    \b
    Example:
      ottla acl remove --user alice --topic orders
    """
    from ottla.client.security_admin import SecurityAdmin

    if user is None and not _patterns(wanted) and not everything:
        raise click.UsageError("name --user, a resource, or --everything.")
    with connect(bootstrap) as client:
        admin = SecurityAdmin(client)
        removed = sum(admin.delete_acls(each) for each in _filters(user, wanted, match=False))
    click.echo(f"removed {removed} ACL{'' if removed == 1 else 's'}")


@command.command("check")
@click.argument("user")
@click.argument("operation", type=click.Choice(list(OPERATIONS)[1:]), metavar="OPERATION")
@click.argument("resource", metavar="TYPE:NAME")
@click.option("--host", default="127.0.0.1", show_default=True, help="The client's address.")
@bootstrap_option
def check(user: str, operation: str, resource: str, host: str, bootstrap: str) -> int:
    """Check whether a user may perform an operation, and show the rule that decides.

    OPERATION is read, write, create or another flag of `ottla acl allow`; TYPE is topic, group,
    transactional-id or cluster. The exit status is 1 if the operation is denied.

    \b
    Example:
      ottla acl check alice read topic:orders
    """
    from ottla.client.admin import Admin, Resource
    from ottla.client.security_admin import SecurityAdmin
    from ottla.config.broker import principals
    from ottla.security.acls import AclFilter
    from ottla.security.authorizer import Authorizer
    from ottla.security.operations import CLUSTER_NAME, Operation, ResourceType
    from ottla.security.principal import parse_principal
    from ottla.security.rules import Rules
    from ottla.wire.config_resource_type import ConfigResourceType

    kind, _, name = resource.partition(":")
    if kind not in TYPES:
        raise click.UsageError(f"{resource}: must be one of {', '.join(TYPES)}, a colon, a name.")
    with connect(bootstrap) as client:
        acls = SecurityAdmin(client).acls(AclFilter())
        broker = str(client.metadata([]).brokers[0].node_id)
        settings = {
            each.name: each.value
            for each in Admin(client).describe_settings(Resource(ConfigResourceType.BROKER, broker))
        }
    authorizer = Authorizer(
        principals(settings.get("super.users") or ""),
        allow_everyone=settings.get("allow.everyone.if.no.acl.found") == "true",
        rules=Rules(acls),
    )
    allowed, why = authorizer.explain(
        parse_principal(_principal(user)),
        host,
        Operation[operation.upper().replace("-", "_")],
        ResourceType[TYPES[kind]],
        name or CLUSTER_NAME,
    )
    click.echo(f"{'allowed' if allowed else 'denied'} by {why}")
    return 0 if allowed else 1
