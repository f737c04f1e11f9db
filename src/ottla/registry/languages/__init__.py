"""The schema languages: parsing, canonical forms and compatibility.

They run in a child process (`worker`), which `checker` starts and bounds: a schema is a stranger's
text, and no library promises how long it takes. Each language is a module with

    parse(text, dependencies, normalize) -> canonical text       (SchemaError)
    differences(new, old) -> what a reader with `new` cannot read of a writer with `old`
    formatted(source, style) -> another form of the text
"""

from msgspec import Struct


class SchemaError(Exception):
    """The text is not a schema; the message says why."""


class Dependency(Struct, frozen=True):
    """A schema that another one needs, under the name that it is referred to by."""

    name: str
    text: str


class SchemaSource(Struct, frozen=True):
    """A schema with all that it needs, each before what needs it."""

    text: str
    dependencies: tuple[Dependency, ...] = ()


class Difference(Struct, frozen=True):
    """A change that breaks a reader.

    The description has `{reader}` and `{writer}` in place of which of the two schemas is the new
    one.
    """

    type: str
    description: str
    info: str | None = None

    def shown(self, reader: str, writer: str) -> str:
        """In the words of Confluent's registry; only Avro's have more information."""
        text = self.description.replace("{reader}", reader).replace("{writer}", writer)
        if self.info is None:
            return f'{{errorType:"{self.type}", description:"{text}"}}'
        return f"{{errorType:'{self.type}', description:'{text}', additionalInfo:'{self.info}'}}"
