"""DescribeAcls, CreateAcls and DeleteAcls, versions 1 to 3: there is no authorizer.

Answered as Kafka does without one: tools that look for ACLs take SECURITY_DISABLED for "none here".
"""

from typing import Final

from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
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

WHY: Final = "No Authorizer is configured."
WHY_NONE: Final = "No Authorizer is configured on the broker"


@api(ApiKey.DESCRIBE_ACLS, 1, 3, DescribeAclsRequest)
def describe_acls(_: Request, __: DescribeAclsRequest) -> DescribeAclsResponse:
    """There are none to describe."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=WHY_NONE)


@api(ApiKey.CREATE_ACLS, 1, 3, CreateAclsRequest, pieces("creations", "results"))
def create_acls(_: Request, asked: CreateAclsRequest) -> CreateAclsResponse:
    """None is created: it would not be kept to."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=WHY)
    return CreateAclsResponse(results=[refused] * len(asked.creations))


@api(ApiKey.DELETE_ACLS, 1, 3, DeleteAclsRequest, pieces("filters", "filter_results"))
def delete_acls(_: Request, asked: DeleteAclsRequest) -> DeleteAclsResponse:
    """None is deleted."""
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=WHY)
    return DeleteAclsResponse(filter_results=[refused] * len(asked.filters))
