"""Reads a screenshot: enough of PNG to know what colours are in it. No imaging library for that."""

import struct
import zlib
from typing import Any, NamedTuple, TypeAlias

import numpy as np


class Picture(NamedTuple):
    width: int
    height: int
    #: The different colours as rows of (red, green, blue), and how many pixels have each.
    colours: "np.ndarray[Any, np.dtype[np.int16]]"
    counts: "np.ndarray[Any, np.dtype[np.int64]]"

    def near(self, colour: str, reach: int = 12) -> int:
        """How many pixels are about this colour, given as #rrggbb."""
        wanted = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)], np.int16)
        return int(self.counts[(np.abs(self.colours - wanted) <= reach).all(axis=1)].sum())


def read_png(data: bytes) -> Picture:
    assert data.startswith(b"\x89PNG\r\n\x1a\n"), "not a PNG"
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    assert kind in (2, 6), "neither RGB nor RGBA"
    channels = 3 if kind == 2 else 4
    place, packed = 8, b""
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += 12 + length
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    pixels = np.zeros((height, width, channels), np.uint8)
    above = np.zeros((width, channels), np.uint8)
    for row in range(height):
        above = pixels[row] = _unfiltered(int(raw[row, 0]), raw[row, 1:].reshape(width, channels), above)
    wide = pixels.astype(np.int64)
    codes, counts = np.unique((wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]).ravel(), return_counts=True)
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1).astype(np.int16)
    return Picture(width, height, colours, counts)


Line: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"


def _unfiltered(kind: int, line: Line, above: Line) -> Line:
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    return _slowly(kind, line.tolist(), above.tolist())


def _slowly(kind: int, line: list[list[int]], above: list[list[int]]) -> Line:
    """The two kinds in which every pixel depends on the one before in a way that arrays cannot do at once."""
    left = corner = [0] * len(line[0])
    for here, up in zip(line, above, strict=True):
        for channel in range(len(here)):
            a, b, c = left[channel], up[channel], corner[channel]
            if kind == 3:
                guess = (a + b) // 2
            else:
                far = [abs(b - c), abs(a - c), abs(a + b - 2 * c)]
                guess = (a, b, c)[far.index(min(far))]
            here[channel] = (here[channel] + guess) & 255
        left, corner = here, up
    return np.array(line, np.uint8)
