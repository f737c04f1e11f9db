"""How large a compressed body can become is known before it is decompressed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import Codec
from ottla.records.compression import compress
from ottla.records.kernel import Kernel

from .kernels import KERNELS, exact, on_each_kernel

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
on_each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
bodies = st.binary(max_size=300) | st.integers(1, 300_000).map(bytes)


@on_each_kernel
@on_each_codec
@given(body=bodies)
def test_a_body_is_never_larger_than_its_frame_says(
    kernel: Kernel, codec: Codec, body: bytes
) -> None:
    assert kernel.largest_body(codec, exact(b"xx" + compress(codec, body)), 2) >= len(body)


@on_each_kernel
@on_each_codec
def test_what_is_cut_off_is_no_frame(kernel: Kernel, codec: Codec) -> None:
    whole = compress(codec, bytes(range(256)) * 20)
    if codec is not Codec.GZIP:  # its blocks have no sizes
        assert kernel.largest_body(codec, exact(whole[:-1]), 0) == -1
    assert kernel.largest_body(codec, exact(whole[:4]), 0) == -1


@on_each_kernel
@on_each_codec
def test_other_bytes_are_no_frame(kernel: Kernel, codec: Codec) -> None:
    assert kernel.largest_body(codec, exact(b"\xff" * 100), 0) == -1
    assert kernel.largest_body(codec, exact(b""), 0) == -1


@on_each_codec
@given(body=bodies, data=st.data())
def test_all_kernels_see_the_same_frames(codec: Codec, body: bytes, data: st.DataObject) -> None:
    frame = bytearray(compress(codec, body))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    del frame[data.draw(st.integers(0, len(frame))) :]
    found = {kernel.largest_body(codec, exact(frame), 0) for kernel in KERNELS}
    assert len(found) == 1
