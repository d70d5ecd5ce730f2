"""Sets of nodes as the bits of one integer, and the nearest member to a number.

A thousand nodes fit into 128 bytes, and union, difference and membership are single operations.
"""

from collections.abc import Collection


def mask_of(nodes: Collection[int]) -> int:
    """The integer whose set bits are `nodes`."""
    flags = bytearray((max(nodes, default=-1) >> 3) + 1)
    for node in nodes:
        flags[node >> 3] |= 1 << (node & 7)
    return int.from_bytes(flags, "little")


def nodes_of(mask: int) -> list[int]:
    """The nodes whose bits are set, in ascending order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def block_of(mask: int, target: int, width: int) -> int:
    """The bits of the nodes that agree with `target` above its lowest `width` bits, shifted down to bit 0."""
    return mask >> (target >> width << width) & ((1 << (1 << width)) - 1)


def nearest(members: int, target: int, width: int) -> int:
    """The member least in x ⊕ target, of those that agree with `target` above its lowest `width` bits; −1: none.

    That is the first member of a cluster whose first node is `target` (`overlay.vcube`).
    """
    if members >> target & 1:
        return target
    block = block_of(members, target, width)
    if not block:
        return -1
    at = target >> width << width
    for bit in range(width - 1, -1, -1):
        half = 1 << bit
        low, high = block & ((1 << half) - 1), block >> half
        if high if target & half else not low:
            block = high
            at |= half
        else:
            block = low
    return at
