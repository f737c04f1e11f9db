"""Protobuf: parsing by protoc (grpcio-tools), which gives descriptors.

Rules kept here:
1. A schema is a .proto text, or a FileDescriptorProto in base64, as clients without a .proto file
   send it. Both are kept as text.
2. The canonical text is printed from the descriptor, so that white space and comments do not
   matter. It is used only if protoc reads the very same descriptor from it; else (custom options)
   the text stays as it was sent.
3. A reference's name is a path below a folder of its own: one that would leave it is refused.
"""

import base64
import binascii
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message import DecodeError
from grpc_tools import _protoc_compiler  # type: ignore[import-untyped] # it has no types

from ottla.registry.languages import Dependency, SchemaError, SchemaSource
from ottla.registry.languages.proto_known import KNOWN_FILES
from ottla.registry.languages.proto_text import default_json_name, proto_text

MAIN_FILE: Final = "__schema__.proto"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]+")
_LOG_LINE: Final = re.compile(r"WARNING: All log messages|[IWE]\d{4} ")
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-/+ ]{1,512}")


def parse(text: str, dependencies: Iterable[Dependency], normalize: bool) -> str:
    """The canonical text of a schema."""
    needed = tuple(dependencies)
    sent = _from_base64(text)
    if sent is not None:
        text = proto_text(sent, full_names=True)
    wanted = compiled(text, needed)[-1]
    for full_names in (True,) if normalize else (False, True):
        printed = proto_text(wanted, full_names=full_names)
        try:
            if _plain(compiled(printed, needed)[-1]) == _plain(wanted):
                return printed
        except SchemaError:
            continue
    return text


def formatted(source: SchemaSource, style: str) -> str:
    """With style `serialized`: the FileDescriptorProto in base64."""
    if style != "serialized":
        return source.text
    found = compiled(source.text, source.dependencies)[-1]
    found.name = "default.proto"
    return base64.b64encode(found.SerializeToString(deterministic=True)).decode()


def compiled(text: str, dependencies: Sequence[Dependency]) -> list[FileDescriptorProto]:
    """The descriptors of all files that a schema needs, its own the last."""
    with tempfile.TemporaryDirectory(prefix="ottla-proto-") as folder:
        for name, known in KNOWN_FILES.items():
            _write(Path(folder), name, known)
        for item in dependencies:
            _write(Path(folder), item.name, item.text)
        _write(Path(folder), MAIN_FILE, text)
        out = Path(folder, "__descriptors__")
        arguments = ["protoc", f"-I{folder}", *_INCLUDES, "--include_imports"]
        status, said = _run([*arguments, f"--descriptor_set_out={out}", MAIN_FILE], folder)
        if status != 0:
            raise SchemaError(_plain_words(said, folder))
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    if not _NAME.fullmatch(name) or path.is_absolute() or ".." in path.parts:
        raise SchemaError(f"invalid name of a reference: {name!r}")
    file = folder / path
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    except (OSError, UnicodeEncodeError):
        raise SchemaError(f"invalid name of a reference: {name!r}") from None


def _run(arguments: list[str], folder: str) -> tuple[int, str]:
    """Run protoc in this process; it prints its errors to the file descriptor of stderr."""
    said = Path(folder, "__errors__")
    saved = os.dup(2)
    try:
        with said.open("wb") as file:
            os.dup2(file.fileno(), 2)
            status: int = _protoc_compiler.run_main([item.encode() for item in arguments])
    finally:
        os.dup2(saved, 2)
        os.close(saved)
    return status, said.read_text("utf-8", "replace")


def _plain_words(said: str, folder: str) -> str:
    lines = [
        line.replace(f"{MAIN_FILE}:", "").strip()
        for line in said.replace(f"{folder}/", "").splitlines()
        if "warning" not in line and not _LOG_LINE.match(line)
    ]
    return "; ".join(line for line in lines if line)[:2000] or "protoc does not accept it"


def _from_base64(text: str) -> FileDescriptorProto | None:
    if not _BASE64.fullmatch(text):
        return None
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError, ValueError):
        return None
    return found if found.message_type or found.enum_type or found.name else None


def _plain(file: FileDescriptorProto) -> bytes:
    """The content of a descriptor, without what depends on how it was made."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("name")
    copy.ClearField("source_code_info")
    for message in copy.message_type:
        _drop_default_names(message)
    return copy.SerializeToString(deterministic=True)


def _drop_default_names(message: DescriptorProto) -> None:
    for field in message.field:
        if field.json_name == default_json_name(field.name):
            field.ClearField("json_name")
    for nested in message.nested_type:
        _drop_default_names(nested)


def _includes() -> list[str]:
    import google.protobuf

    found = [f"-I{resources.files('grpc_tools') / '_proto'}"]
    # google/type and google/rpc, where googleapis-common-protos is installed.
    packages = Path(google.protobuf.__file__).parents[2]
    return [*found, f"-I{packages}"] if (packages / "google" / "type").is_dir() else found


_INCLUDES: Final = _includes()
