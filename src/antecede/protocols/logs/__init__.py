"""Causal order across logs that another system runs: JetStream streams, Kafka partitions, Redis streams.

A log gives every appended record an offset, in one order for all readers. Across logs there is no order: a reader of
two logs sees an answer before its question whenever the second log is faster. Writers attach a small header (`header`);
readers hold a record until its past is settled (`reader`, on `core.gate`). No server of ours takes part.

header.py    what a record carries, and its encoding
writer.py    fills in headers: the frontier of a client
releases.py  what a reader gives out: releases, gaps, holes, cursors
reader.py    releases records in causal order
trail.py     cursors of records, made when they are asked for
"""

from antecede.protocols.logs.header import Header, decode_header, encode_header, log_number
from antecede.protocols.logs.reader import Reader
from antecede.protocols.logs.releases import ChannelCursor, Cursor, Gap, Hole, LogCursor, Release
from antecede.protocols.logs.trail import LogsCursor, Trail, Trails
from antecede.protocols.logs.writer import Writer

__all__ = [
    "ChannelCursor",
    "Cursor",
    "Gap",
    "Header",
    "Hole",
    "LogCursor",
    "LogsCursor",
    "Reader",
    "Release",
    "Trail",
    "Trails",
    "Writer",
    "decode_header",
    "encode_header",
    "log_number",
]
