"""Every bound of the pure layers, with its reason. Drivers may choose smaller ones, never none."""

from typing import Final

#: Largest cube: 2**16 nodes. Trees are computed, not stored, so the bound is on what a simulation or a
#: membership view may sensibly hold, and keeps node numbers within two bytes as the papers count them.
CUBE_DIMENSION_MAX: Final = 16

#: What the papers' networks carry in one packet (thesis 4.5.1): an Ethernet frame.
PACKET_BYTES_MAX: Final = 1500

#: Messages one node may hold back before it says so. A node that holds a million messages is not ordering
#: traffic any more, it is missing something; the protocol is told (`Verdict.FULL`) and can pull or refuse.
HELD_MESSAGES_MAX: Final = 1_000_000

#: Topic names travel in every packet and key every table.
TOPIC_BYTES_MAX: Final = 1024

#: Dependencies one message may carry off a wire. Barriers hold a handful of entries, changed clock entries are
#: at most one a node; a list longer than this is a mistake or an attack, and every entry costs its receivers memory.
DEPENDENCIES_MAX: Final = 4096

#: Counters LoCaMu may keep for the links of one safe neighbourhood. All may travel in a message, four bytes each: more
#: than this would be headers of a quarter of a megabyte.
LINK_COUNTERS_MAX: Final = 65_536
