"""The options of a format, and the registry that they name.

Rules kept here:
1. The URL and the login may hold `${env:}` and `${file:}`: they are resolved by the process that
   asks the registry, so that no plan holds a secret.
2. A schema is found by its id, and remembered by the process that asked for it.
"""

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

from ottla.config.errors import ConfigError
from ottla.registry.client import FoundSchema, RegistryClient, RegistryUnreachable, SchemaRefused
from ottla.security.secrets import resolve
from pyspark_ottla.errors import OptionError

if TYPE_CHECKING:
    from pyspark_ottla.options import Options

FORMATS: Final = ("avro", "json-schema", "protobuf")
BINARY: Final = "binary"
KINDS: Final = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
FAILFAST, PERMISSIVE, KEEP = "failfast", "permissive", "keep"
MODES: Final = (FAILFAST, PERMISSIVE, KEEP)
URL: Final = "schema.registry.url"
USER_INFO: Final = "schema.registry.basic.auth.user.info"
NAMES: Final = ("value.subject", "value.schema.version", "value.mode", URL, USER_INFO)


class FormatSettings(Struct, frozen=True, kw_only=True):
    """How values are decoded or encoded."""

    format: str
    url: str
    user_info: str | None
    subject: str
    version: str | None
    """A number or `latest`; None: a reader takes the latest, a writer one made from its columns."""
    mode: str = FAILFAST
    schema_id: int = 0
    """The schema of the reader, or of the writer, once it is known."""

    @classmethod
    def of(cls, options: "Options", topics: tuple[str, ...]) -> Self | None:
        """Read the options; None where values are left as they are. OptionError."""
        from pyspark_ottla.options import wrong

        chosen = options.choice("value.format", (*FORMATS, BINARY), BINARY)
        if chosen == BINARY:
            for name in NAMES:
                if options.text(name) is not None:
                    raise OptionError(f"option {name} needs value.format: {' or '.join(FORMATS)}")
            return None
        url = options.text(URL)
        if not url:
            raise OptionError(f"option value.format is {chosen!r}: it needs the option {URL}")
        version = options.text("value.schema.version")
        if version is not None and version != "latest" and not version.isdecimal():
            raise wrong("value.schema.version", version, "latest or a number")
        subject = options.text("value.subject")
        if not subject:
            if len(topics) != 1:
                raise OptionError(
                    "option value.format needs the option value.subject where there is not one "
                    "topic: the subject whose schema gives the columns"
                )
            subject = f"{topics[0]}-value"
        return cls(
            format=chosen,
            url=url,
            user_info=options.text(USER_INFO),
            subject=subject,
            version=version,
            mode=options.choice("value.mode", MODES, FAILFAST),
        )

    @property
    def is_permissive(self) -> bool:
        """Whether a value that does not fit is told about in columns, and is no error."""
        return self.mode != FAILFAST

    def registry(self) -> RegistryClient:
        """A client of the registry; OptionError."""
        try:
            url = resolve(self.url, os.environ)
            user_info = None if self.user_info is None else resolve(self.user_info, os.environ)
            return RegistryClient(url, user_info)
        except (ConfigError, RegistryUnreachable) as problem:
            raise OptionError(f"option {URL}: {problem}") from None

    def by_id(self, schema_id: int) -> FoundSchema:
        """A schema; SchemaRefused for one that there is not, OptionError without a registry."""
        try:
            return _by_id(self.url, self.user_info, schema_id, self.format == "protobuf")
        except RegistryUnreachable as problem:
            raise OptionError(f"option {URL}: {problem}") from None

    def chosen(self) -> FoundSchema:
        """The version that the options name, or the latest one; OptionError."""
        registry = self.registry()
        try:
            found = registry.version(
                self.subject, self.version or "latest", serialized=self.format == "protobuf"
            )
        except (RegistryUnreachable, SchemaRefused) as problem:
            raise OptionError(f"option value.format is {self.format!r}: {problem}") from None
        return self.checked(found)

    def checked(self, found: FoundSchema) -> FoundSchema:
        """A schema of this format; OptionError for one of another."""
        if found.type != KINDS[self.format]:
            raise OptionError(
                f"option value.format is {self.format!r}, but the schema of {self.subject} is "
                f"{found.type}"
            )
        return found

    def register(self, text: str) -> int:
        """Register a schema that was made from columns; its id. OptionError."""
        try:
            return _register(self, text)
        except (RegistryUnreachable, SchemaRefused) as problem:
            raise OptionError(
                f"option value.format: the schema of the columns cannot be registered as "
                f"{self.subject}: {problem}"
            ) from None


@lru_cache(maxsize=100)
def _register(settings: FormatSettings, text: str) -> int:
    """Spark plans a stream's sink in each batch; its schema is registered once."""
    return settings.registry().register(settings.subject, KINDS[settings.format], text)


@lru_cache(maxsize=10_000)
def _by_id(url: str, user_info: str | None, schema_id: int, serialized: bool) -> FoundSchema:
    settings = FormatSettings(format="", url=url, user_info=user_info, subject="", version=None)
    return settings.registry().by_id(schema_id, serialized=serialized)
