"""DescribeAcls, CreateAcls and DeleteAcls, versions 1 to 3: there is no authorizer.

Answered as Kafka does without one: tools that look for ACLs take SECURITY_DISABLED for "none here".
"""

from typing import Final

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NOT_AUTHORIZED: Final = "Cluster authorization failed."
WHY: Final = "No Authorizer is configured."


def _refuse_creations(asked: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=code, error_message=NOT_AUTHORIZED)
    return CreateAclsResponse(results=[refused] * len(asked.creations))


def _refuse_deletions(asked: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=code, error_message=NOT_AUTHORIZED)
    return DeleteAclsResponse(filter_results=[refused] * len(asked.filters))


WHY_NONE: Final = "No Authorizer is configured on the broker"


@api(ApiKey.DESCRIBE_ACLS, 1, 3, DescribeAclsRequest, authorize=OnCluster(Operation.DESCRIBE))
def describe_acls(_: Request, __: DescribeAclsRequest) -> DescribeAclsResponse:
    """There are none to describe."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=WHY_NONE)


@api(
    ApiKey.CREATE_ACLS,
    1,
    3,
    CreateAclsRequest,
    pieces("creations", "results"),
    authorize=OnCluster(Operation.ALTER, _refuse_creations),
)
def create_acls(_: Request, asked: CreateAclsRequest) -> CreateAclsResponse:
    """None is created: it would not be kept to."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=WHY)
    return CreateAclsResponse(results=[refused] * len(asked.creations))


@api(
    ApiKey.DELETE_ACLS,
    1,
    3,
    DeleteAclsRequest,
    pieces("filters", "filter_results"),
    authorize=OnCluster(Operation.ALTER, _refuse_deletions),
)
def delete_acls(_: Request, asked: DeleteAclsRequest) -> DeleteAclsResponse:
    """None is deleted."""
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=WHY)
    return DeleteAclsResponse(filter_results=[refused] * len(asked.filters))
