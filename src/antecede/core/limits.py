"""The bounds of the pure layers, and of what one client may cost a node, with their reasons. See docs/limits.md."""

from typing import Final

#: Largest cube: 2**16 nodes. Trees are computed, not stored, so the bound limits simulations and membership views. It
#: keeps node numbers within two bytes, as the papers count them.
CUBE_DIMENSION_MAX: Final = 16

#: Slots of a live cluster, and partitions of its topics. A stream is named by one number, `partition * 1024 + slot`.
SLOTS_MAX: Final = 1024
PARTITIONS_MAX: Final = 256

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

# -- one client of a node ----------------------------------------------------------------------------------------------

#: Feeds of one client.
FEEDS_MAX: Final = 1024

#: Bytes that the feeds of one client may cost: their filters, as `FILTER_LEVEL_BYTES` counts them, and what their
#: readers say they have read. A thousand feeds with a filter of ten levels each fit.
FEEDS_BYTES_MAX: Final = 8 * 1024 * 1024

#: What a feed, and a level of a filter, cost beside their text: objects and tables, as measured.
FEED_BYTES: Final = 2048
FILTER_LEVEL_BYTES: Final = 512
#: What a pair of numbers costs: a source and the last message of it that was read, or a predecessor.
PAIR_BYTES: Final = 128

#: Bytes of messages that wait in all feeds of one client that drop messages or end when their reader lags.
WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024

#: Publications of one client that may wait at the node, and their bytes, with `PUBLICATION_BYTES` for each. A client of
#: ours holds back before (`client.publications`).
WAITING_MAX: Final = 16_384
WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
PUBLICATION_BYTES: Final = 256

#: Bytes of one client's publications that are not yet as safe as was asked, with `PROMISE_BYTES` for each answer that
#: is due. Beyond it the next ones wait.
UNSETTLED_BYTES_MAX: Final = 16 * 1024 * 1024
PROMISE_BYTES: Final = 2048

#: Publications in one record: as many of the smallest as fit a frame that records share.
PUBLICATIONS_MAX: Final = 4096

#: Bytes of payloads that were published and are not in the journal yet, of all clients. Beyond it publishers wait.
UNCOMMITTED_BYTES_MAX: Final = 4 * 1024 * 1024

#: Bytes that one client may add to a batch (`node.batch_shares`), and what a message counts beside its payload: about
#: two milliseconds' work for the journal, and as much for the event loop.
BATCH_BYTES_MAX: Final = 256 * 1024
BATCH_MESSAGE_BYTES: Final = 128

#: Publications of all clients that the protocol has not numbered yet; beyond it publishers wait, and take turns. Where
#: publishers wait for the window of their node only (not "total"), fewer do: a newcomer waits behind all of them.
UNNUMBERED_MAX: Final = 512
UNNUMBERED_TOTAL_MAX: Final = 16_384

#: Bytes of all that is counted above for one client, for all clients together; and the part of each bound that a
#: client may use when that is used up.
POOL_BYTES_MAX: Final = 256 * 1024 * 1024
SHARE_BYTES_KEPT: Final = 64 * 1024

#: Work in one turn of the event loop. The unit is about 10 µs, what a small record takes. At once: for one client, and
#: for all. Then, for clients with a backlog: in one step of one client, and in all steps. So others wait for some
#: milliseconds at the most.
RECORDS_COST_MAX: Final = 192
AT_ONCE_COST_MAX: Final = 768
STEP_COST_MAX: Final = 32
TURN_COST_MAX: Final = 96

#: While clients without a backlog make requests, backlogs rest for so many times as long as each turn of theirs took:
#: together they have a third of the event loop's time at the most. The same holds for threads that read for clients.
REST_SHARE: Final = 2.0

# -- the memory of a node ----------------------------------------------------------------------------------------------

#: Memory of one connection beside what the pool counts: a frame and a read of the socket (1¼ MiB), the records of a
#: frame that they share (at most 32 times its 64 KiB), and answers (½ MiB).
CONNECTION_BYTES_MAX: Final = 4 * 1024 * 1024
#: The same of a bulk client: a question, a page of blocks, and the page encoded.
BULK_CONNECTION_BYTES_MAX: Final = 16 * 1024 * 1024
#: A node without clients, after days: Python and its libraries, the protocol's tables, caches of the journal.
NODE_BYTES_OWN: Final = 192 * 1024 * 1024


def node_bytes_max(*, clients: int, bulk_clients: int, recent_bytes: int) -> int:
    """The memory that a node of two may take while so many clients do their worst."""
    held = NODE_BYTES_OWN + 2 * recent_bytes + POOL_BYTES_MAX
    return held + clients * CONNECTION_BYTES_MAX + bulk_clients * BULK_CONNECTION_BYTES_MAX
