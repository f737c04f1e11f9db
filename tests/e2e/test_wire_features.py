"""UpdateFeatures: what is in use may be asked for again, and nothing else."""

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from testkit.raw import Connection

UPGRADE, SAFE_DOWNGRADE = 1, 2


def update(
    connection: Connection, version: int = 2, kind: int = UPGRADE, **levels: int
) -> UpdateFeaturesResponse:
    updates = [
        FeatureUpdateKey(
            feature=name.replace("_", "."),
            max_version_level=level,
            upgrade_type=kind,
            allow_downgrade=kind != UPGRADE,
        )
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(feature_updates=updates)
    return connection.ask(request, UpdateFeaturesResponse, version)


def levels_in_use(connection: Connection) -> dict[str, int]:
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")
    answer = connection.ask(request, ApiVersionsResponse, 4)
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


@pytest.mark.parametrize("version", range(3))
def test_the_levels_in_use_may_be_asked_for(connection: Connection, version: int) -> None:
    answer = update(connection, version, metadata_version=30, group_version=1)
    assert answer.error_code == ErrorCode.NONE
    told = [(each.feature, each.error_code) for each in answer.results]
    assert told == ([("metadata.version", 0), ("group.version", 0)] if version < 2 else [])


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        ("metadata_version", 31, UPGRADE, "only supports versions 7-30"),
        ("metadata_version", 6, SAFE_DOWNGRADE, "only supports versions 7-30"),
        ("metadata_version", 29, UPGRADE, "without setting the upgrade type"),
        ("metadata_version", 29, SAFE_DOWNGRADE, "downgrade"),
        ("transaction_version", 3, UPGRADE, "only supports versions 0-2"),
        ("transaction_version", -1, SAFE_DOWNGRADE, "cannot be less than 0"),
        ("no_such", 1, UPGRADE, "no.such"),
    ],
)
def test_one_level_that_cannot_be_refuses_all(
    connection: Connection, version: int, name: str, level: int, kind: int, reason: str
) -> None:
    before = levels_in_use(connection)
    answer = update(connection, version, kind, group_version=1, **{name: level})
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert answer.error_message is not None
    assert reason in answer.error_message
    assert levels_in_use(connection) == before


def test_an_unknown_kind_of_change_is_refused(connection: Connection) -> None:
    assert update(connection, kind=9, group_version=1).error_code == (
        ErrorCode.INVALID_UPDATE_VERSION
    )
