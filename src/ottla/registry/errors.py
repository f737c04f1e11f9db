"""What a registry refuses: Confluent's error codes and texts.

The HTTP status is the first three digits of the code.
"""

from typing import Final

INCOMPATIBLE_SCHEMA: Final = 409
UNKNOWN_LEADER: Final = 50004


class RegistryError(Exception):
    """A refusal with Confluent's code; the text is for the caller."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(str(self.code)[:3])


def subject_not_found(subject: str) -> RegistryError:
    """40401."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    """40402."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    """40403."""
    return RegistryError(
        40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    )


def subject_soft_deleted(subject: str) -> RegistryError:
    """40404."""
    return RegistryError(
        40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """40405."""
    return RegistryError(
        40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    """40406."""
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. "
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    """40407."""
    return RegistryError(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being "
        "permanently deleted",
    )


def no_subject_compatibility(subject: str) -> RegistryError:
    """40408."""
    return RegistryError(
        40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_subject_mode(subject: str) -> RegistryError:
    """40409."""
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible_schema(subject: str, details: list[str]) -> RegistryError:
    """409, with what is incompatible."""
    return RegistryError(
        INCOMPATIBLE_SCHEMA,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(details)}]',
    )


def invalid_schema(why: str) -> RegistryError:
    """42201."""
    return RegistryError(42201, f"Invalid schema: {why}")


def invalid_version(version: str) -> RegistryError:
    """42202."""
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"',
    )


def invalid_compatibility() -> RegistryError:
    """42203."""
    return RegistryError(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> RegistryError:
    """42204."""
    return RegistryError(
        42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT."
    )


def not_permitted(why: str) -> RegistryError:
    """42205."""
    return RegistryError(42205, why)


def reference_exists(subject: str, version: int) -> RegistryError:
    """42206."""
    return RegistryError(
        42206,
        "One or more references exist to the schema "
        f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def invalid_subject(subject: str) -> RegistryError:
    """42208."""
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid subject.")


def store_failed(why: str) -> RegistryError:
    """50001: the broker cannot be reached, or refused a write."""
    return RegistryError(50001, f"Error in the backend data store: {why}")


def timed_out(why: str) -> RegistryError:
    """50002."""
    return RegistryError(50002, f"Operation timed out: {why}")


def forwarding_failed(why: str) -> RegistryError:
    """50003."""
    return RegistryError(50003, f"Error while forwarding the request to the leader: {why}")


def unknown_leader() -> RegistryError:
    """50004."""
    return RegistryError(UNKNOWN_LEADER, "Leader not known.")
