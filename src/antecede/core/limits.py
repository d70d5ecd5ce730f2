"""Every bound of the pure layers, with its reason. Drivers may choose smaller ones, never none."""

from typing import Final

#: Largest cube: 2**16 nodes. Trees are computed, not stored, so the bound limits simulations and membership views. It
#: keeps node numbers within two bytes, as the papers count them.
CUBE_DIMENSION_MAX: Final = 16

#: Slots of a live cluster, and partitions of its topics. A stream is named by one number, `partition * 1024 + slot`,
#: which stays within two bytes as a node's number does.
SLOTS_MAX: Final = 1024
PARTITIONS_MAX: Final = 64

#: Bytes of one packet in the papers' networks (thesis 4.5.1): an Ethernet frame.
PACKET_BYTES_MAX: Final = 1500

#: Messages that one gate may hold. A node that holds a million messages has lost a message that they all wait for; the
#: gate answers `Verdict.FULL`, and the protocol can pull the missing message or refuse more.
HELD_MESSAGES_MAX: Final = 1_000_000

#: Topic names travel in every packet and key every table.
TOPIC_BYTES_MAX: Final = 1024

#: Dependencies that a message from the wire may carry. Barriers have a handful of entries, changed clock entries at
#: most one for each node. A longer list is a mistake or an attack, and every entry costs its receivers memory.
DEPENDENCIES_MAX: Final = 4096

#: Counters that LoCaMu may keep for the links of one safe neighbourhood. All may travel in a message, four bytes each,
#: so this bounds a header to a quarter of a megabyte.
LINK_COUNTERS_MAX: Final = 65_536

#: Days for which a certificate or a token may be good: ten years. A longer one is never replaced in time.
CREDENTIAL_DAYS_MAX: Final = 3653

#: Bytes of the proof that a signed message carries: a signature and the hashes beside its way to the root of a tree.
PROOF_BYTES_MAX: Final = 330
