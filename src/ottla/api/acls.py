"""DescribeAcls, CreateAcls and DeleteAcls, versions 1 to 3 (KIP-140, KIP-290).

Without an authorizer answered as Kafka does: tools that look for ACLs take SECURITY_DISABLED for
"none here".
"""

from typing import Final

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.security import create_acls as create
from ottla.broker.metadata.security import delete_acls as delete
from ottla.broker.metadata.security import find_acls
from ottla.security.acls import Acl, AclFilter, new_acl
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

NOT_AUTHORIZED: Final = "Cluster authorization failed."
WHY: Final = "No Authorizer is configured."
WHY_NONE: Final = "No Authorizer is configured on the broker"


def _refuse_creations(asked: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    why = WHY if code is ErrorCode.SECURITY_DISABLED else NOT_AUTHORIZED
    refused = AclCreationResult(error_code=code, error_message=why)
    return CreateAclsResponse(results=[refused] * len(asked.creations))


def _refuse_deletions(asked: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    why = WHY if code is ErrorCode.SECURITY_DISABLED else NOT_AUTHORIZED
    refused = DeleteAclsFilterResult(error_code=code, error_message=why)
    return DeleteAclsResponse(filter_results=[refused] * len(asked.filters))


@api(ApiKey.DESCRIBE_ACLS, 1, 3, DescribeAclsRequest, authorize=OnCluster(Operation.DESCRIBE))
def describe_acls(request: Request, asked: DescribeAclsRequest) -> DescribeAclsResponse:
    """The ACLs that a filter matches, by resource."""
    if request.node.authorization.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=WHY_NONE)
    wanted = _filter(asked, asked.principal_filter, asked.host_filter)
    try:
        wanted.check()
    except KafkaError as problem:
        return DescribeAclsResponse(error_code=problem.code, error_message=problem.message)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in sorted(find_acls(request.node.image, wanted)):
        resource = resources.setdefault(
            acl[:3],
            DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern_type,
            ),
        )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


@api(
    ApiKey.CREATE_ACLS,
    1,
    3,
    CreateAclsRequest,
    pieces("creations", "results"),
    authorize=OnCluster(Operation.ALTER, _refuse_creations),
)
async def create_acls(request: Request, asked: CreateAclsRequest) -> CreateAclsResponse:
    """Create each ACL; one that exists is no error."""
    if request.node.authorization.authorizer is None:
        return _refuse_creations(asked, ErrorCode.SECURITY_DISABLED)
    results: list[AclCreationResult] = []
    wanted: list[Acl] = []
    for creation in asked.creations:
        result = AclCreationResult(error_message=None)
        results.append(result)
        try:
            wanted.append(_acl(creation))
        except KafkaError as problem:
            result.error_code, result.error_message = problem.code, problem.message
    try:
        await create(request.node.metadata, wanted)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        for result in results:
            if not result.error_code:
                result.error_code, result.error_message = error_of(problem)
    return CreateAclsResponse(results=results)


@api(
    ApiKey.DELETE_ACLS,
    1,
    3,
    DeleteAclsRequest,
    pieces("filters", "filter_results"),
    authorize=OnCluster(Operation.ALTER, _refuse_deletions),
)
async def delete_acls(request: Request, asked: DeleteAclsRequest) -> DeleteAclsResponse:
    """Delete what each filter matches, and tell it."""
    if request.node.authorization.authorizer is None:
        return _refuse_deletions(asked, ErrorCode.SECURITY_DISABLED)
    results: list[DeleteAclsFilterResult] = []
    filters: list[tuple[DeleteAclsFilterResult, AclFilter]] = []
    for each in asked.filters:
        result = DeleteAclsFilterResult(error_message=None)
        results.append(result)
        wanted = _filter(each, each.principal_filter, each.host_filter)
        try:
            wanted.check()
            filters.append((result, wanted))
        except KafkaError as problem:
            result.error_code, result.error_message = problem.code, problem.message
    try:
        deleted = await delete(request.node.metadata, [wanted for _, wanted in filters])
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        for result, _ in filters:
            result.error_code, result.error_message = error_of(problem)
    else:
        for (result, _), acls in zip(filters, deleted, strict=True):
            result.matching_acls = [_matching(acl) for acl in sorted(acls)]
    return DeleteAclsResponse(filter_results=results)


def _filter(
    asked: DescribeAclsRequest | DeleteAclsFilter, principal: str | None, host: str | None
) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        principal,
        host,
        asked.operation,
        asked.permission_type,
    )


def _acl(creation: AclCreation) -> Acl:
    return new_acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
