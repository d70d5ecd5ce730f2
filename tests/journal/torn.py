"""What a power failure leaves of the log of a journal: any unsynced sector and any part of its end may be gone."""

from collections.abc import Mapping
from pathlib import Path
from random import Random

from antecede.journal.segments import HEAD_BYTES, segment_bases, segment_path


def tear(journal: Path, into: Path, synced: Mapping[int, int], rng: Random) -> None:
    """Copy the segments of `journal` to `into`. `synced`: by segment, how much of it is on the disk."""
    for base in segment_bases(journal):
        data = bytearray(segment_path(journal, base).read_bytes())
        safe = synced.get(base, 0)
        if safe == 0 and rng.random() < 0.5:
            continue  # its name was not synced, either
        if any(data[32:40]) and rng.random() < 0.5:  # what readers may see is not synced
            data[32:40] = (base + HEAD_BYTES).to_bytes(8, "little")
        del data[rng.randrange(safe, len(data) + 1) if safe < len(data) else len(data) :]
        for sector in range(safe // 64 * 64, len(data), 64):
            if rng.random() < 0.3:
                begin = max(safe, sector)
                data[begin : sector + 64] = bytes(len(data[begin : sector + 64]))
        segment_path(into, base).write_bytes(data)
