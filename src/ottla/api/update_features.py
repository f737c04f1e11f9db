"""UpdateFeatures, versions 0 to 2: the level of a feature is the one it has (KIP-584, KIP-1022).

As in Kafka, what is wrong with one feature refuses all of them. Unlike in Kafka no level can be
lowered: this broker does what its levels say, and has no older ways.
"""

from ottla.api.api_versions import FEATURES
from ottla.api.authorization import OnCluster
from ottla.api.registry import Request, api
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

FIRST_WITHOUT_RESULTS = 2
FIRST_WITH_KINDS = 1
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@api(ApiKey.UPDATE_FEATURES, 0, 2, UpdateFeaturesRequest, authorize=OnCluster(Operation.ALTER))
def update_features(request: Request, asked: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Say of each level whether it could be had."""
    for update in asked.feature_updates:
        problem = _problem(request, update)
        if problem is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message="The update failed for all features since the following feature had "
                f"an error: Invalid update version {update.max_version_level} for feature "
                f"{update.feature}. {problem}",
            )
    if request.version >= FIRST_WITHOUT_RESULTS:
        return UpdateFeaturesResponse()
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(feature=each.feature) for each in asked.feature_updates]
    )


def _problem(request: Request, update: FeatureUpdateKey) -> str | None:
    """Why a feature cannot have this level."""
    kind, level = update.upgrade_type, update.max_version_level
    if request.version < FIRST_WITH_KINDS:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if update.feature not in FEATURES:
        return f"Local controller {request.node.id} does not support this feature."
    least, now = FEATURES[update.feature]
    if not least <= level <= now:
        return f"Local controller {request.node.id} only supports versions {least}-{now}"
    if level < now and kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    return None if level == now else "It cannot be downgraded."
