"""How the records of `protocols.homes` travel between nodes."""

from typing import Final

from antecede.protocols.homes.records import Answer, AskHome, HomeState, Question, ReadStream, StreamPage
from antecede.wire.codec import RecordCodec

#: The role that a node names in its hello, and what it speaks.
ROLE: Final = "past"
SPEAKS: Final = "past/1"

#: An answer: twice the largest page with the largest message.
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024

TO_NODE: Final = RecordCodec[Question]((ReadStream, AskHome))
TO_CALLER: Final = RecordCodec[Answer]((StreamPage, HomeState), frame_bytes_max=ANSWER_BYTES_MAX)
