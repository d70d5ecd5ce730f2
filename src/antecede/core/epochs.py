"""Epochs: a slot that gets another owner begins a new one, so that no number is given twice.

A message is named by the slot of its source and a sequence number. When the owner of a slot is gone for good, the slot
may be given to another node. The other nodes cannot know all numbers that the former owner gave: it may have published
while it was alone. So the numbers of the new owner begin above all that the former one could give:

    seq = epoch << 40 | n        n = 1, 2, 3, …

The first owner of a slot has epoch 0, and its numbers are 1, 2, 3, … A source has at most 2^40 messages in an epoch:
four months at 100,000 a second. The numbers of a stream rise without a hole but at the seam between two epochs. Where
the former numbers end, the nodes agree (`protocols.vcube_ps.closing`).
"""

from typing import Final

_BITS: Final = 40
#: Epochs of one slot: numbers stay below 2^63.
EPOCHS_MAX: Final = 1 << 22


def epoch_base(epoch: int) -> int:
    """The number before the first one of an epoch."""
    return epoch << _BITS


def epoch_of(seq: int) -> int:
    """The epoch that a sequence number belongs to."""
    return seq >> _BITS


def within_epoch(seq: int) -> int:
    """Which message of its epoch this is: 1 is the first."""
    return seq & (1 << _BITS) - 1


def behind_seam(seq: int, reached: int) -> int:
    """How far a reader that has reached a number is with the epoch of `seq`: a former epoch counts as complete."""
    return max(reached, epoch_base(epoch_of(seq)))
