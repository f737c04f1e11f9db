"""ACLs: there is no authorizer, and clients get the same error as from Apache Kafka without one."""

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from testkit.raw import Connection

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
TOLD = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


@VERSIONS
def test_who_looks_for_acls_is_told_that_security_is_disabled(
    connection: Connection, version: int
) -> None:
    anything = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    answer = connection.ask(anything, DescribeAclsResponse, version)
    assert answer.error_code == ErrorCode.SECURITY_DISABLED
    assert answer.error_message == "No Authorizer is configured on the broker"
    assert not answer.resources


@VERSIONS
def test_each_acl_that_would_not_be_kept_to_is_refused(
    connection: Connection, version: int
) -> None:
    acl = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3)
    request = CreateAclsRequest(creations=[acl, acl])
    answer = connection.ask(request, CreateAclsResponse, version)
    assert [(one.error_code, one.error_message) for one in answer.results] == [TOLD, TOLD]


@VERSIONS
def test_each_filter_of_acls_to_delete_is_refused(connection: Connection, version: int) -> None:
    one = DeleteAclsFilter(resource_type_filter=2, operation=1, permission_type=1)
    request = DeleteAclsRequest(filters=[one, one])
    answer = connection.ask(request, DeleteAclsResponse, version)
    found = [(result.error_code, result.error_message) for result in answer.filter_results]
    assert found == [TOLD, TOLD]
