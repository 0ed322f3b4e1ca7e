"""Every codec's bytes are those that any Kafka client reads."""

from __future__ import annotations

import os

import pytest

from gateway.kafka.wire.compression import CODECS, LZ4, compress, decompress

BLOCK_BYTES = 64 * 1024
LINES = b"".join(b"line %d, " % number for number in range(40_000))


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 300_000])
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_compressed_is_read_again(codec: int, size: int) -> None:
    """At the borders of blocks, too, and where a block does not get smaller."""
    for data in (LINES[:size], os.urandom(size), bytes(size)):
        packed = memoryview(bytes(compress(codec, [data[:7], data[7:]])))
        assert bytes(decompress(codec, packed, 1_000_000)) == data


def test_blocks_of_lz4_do_not_refer_to_each_other() -> None:
    """Java refuses frames of linked blocks (KIP-57): the flag says independent, and each block is of 64 KiB at most."""
    frame = bytes(compress(LZ4, [LINES]))
    magic, flags, block_size = frame[:4], frame[4], frame[5] >> 4 & 7
    assert magic == bytes.fromhex("04224d18")
    assert flags >> 6 == 1
    assert flags >> 5 & 1 == 1, "linked blocks"
    assert block_size == 4
    position, sizes = 7, []
    while size := int.from_bytes(frame[position : position + 4], "little"):
        sizes.append(size & 0x7FFFFFFF)
        position += 4 + sizes[-1]
    assert len(sizes) == -(-len(LINES) // BLOCK_BYTES)
    assert position + 4 == len(frame)
