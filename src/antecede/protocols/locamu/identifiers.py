"""Links, and the identifiers that messages have on them (LoCaMu III-E).

A message has no single name in the whole system. Every node that forwards it numbers it once for each target, and
(sender, target, number) is one of its identifiers, valid near both. A *link* is the pair (sender, target) in one
integer. A message's identifiers are a dictionary from links to numbers, since no node numbers a message twice on a
link.
"""

from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta

from antecede.core.limits import CUBE_DIMENSION_MAX, LINK_COUNTERS_MAX

_BITS: Final = CUBE_DIMENSION_MAX
_MASK: Final = (1 << _BITS) - 1

#: `number << LINK_BITS | link` is an identifier as one integer.
LINK_BITS: Final = 2 * CUBE_DIMENSION_MAX

Link: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << (2 * CUBE_DIMENSION_MAX))]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]

#: Numbers by link: a message's identifiers, or how far each link is in a node's past.
Ids: TypeAlias = Annotated[dict[Link, Number], Meta(max_length=LINK_COUNTERS_MAX)]

#: `Ids` where compiled code only looks up and stores: numbers of this type stay the objects that they are. Of an `int`
#: compiled code makes a new object for each look-up and each dict (docs/architecture.md, Compiled modules).
Shared: TypeAlias = dict[Any, Any]

#: One identifier.
Id: TypeAlias = tuple[int, int]


def link(sender: int, to: int) -> int:
    return sender << _BITS | to


def sender_of(link: int) -> int:
    return link >> _BITS


def receiver_of(link: int) -> int:
    return link & _MASK
