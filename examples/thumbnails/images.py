"""Image conversion without a library, from PPM and PGM (netpbm's binary formats) to PNG."""

from __future__ import annotations

import re
import struct
import zlib

HEADER = re.compile(rb"(P[56])\s+(\d+)\s+(\d+)\s+255\s")
CHANNELS = {b"P5": 1, b"P6": 3}


class NotAnImage(Exception):
    """The image can't be converted; a retry will not help."""


def picture(width: int, height: int, seed: int, *, grey: bool = False) -> bytes:
    """Return a gradient as PPM, or as PGM if it is grey."""
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            red, green, blue = (x * 255 // width + seed) % 256, y * 255 // height, seed % 256
            pixels += bytes([red]) if grey else bytes([red, green, blue])
    return b"%b %d %d 255\n" % (b"P5" if grey else b"P6", width, height) + bytes(pixels)


def thumbnail(image: bytes, size: int, kinds: tuple[bytes, ...]) -> bytes:
    """Return a PNG of at most ``size`` pixels a side: every nth pixel. Raises ``NotAnImage`` for other kinds than ``kinds``."""
    found = HEADER.match(image)
    if found is None:
        raise NotAnImage("neither PPM nor PGM")
    kind, width, height = found[1], int(found[2]), int(found[3])
    if kind not in kinds:
        raise NotAnImage(f"{kind.decode()} is not supported")
    channels, pixels = CHANNELS[kind], image[found.end() :]
    if len(pixels) != width * height * channels:
        raise NotAnImage(f"{len(pixels)} bytes, not {width * height * channels}")
    step = max(1, -(-max(width, height) // size))
    rows = [
        b"".join(pixels[(y * width + x) * channels :][:channels] for x in range(0, width, step))
        for y in range(0, height, step)
    ]
    return png(rows, channels)


def png(rows: list[bytes], channels: int) -> bytes:
    """Return rows of 8-bit grey or RGB pixels as PNG (W3C Portable Network Graphics)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    size = struct.pack(">IIBBBBB", len(rows[0]) // channels, len(rows), 8, 2 if channels == 3 else 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
