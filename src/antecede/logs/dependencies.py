"""States what records of any producer depend on, as far as their headers tell.

Our own header names offsets of logs. Other producers name ids: a record has an id in one header (`ids`), and the ids of
the records that it answers in another (`causes`), for example a causation id or links to spans. Where all records of a
conversation only share one id (`shared`: a correlation id, a trace), the id does not tell which came first. Then `flow`
names topics in the order of the conversation: a record follows those of the same id on the topics before its own.

A value in the form of W3C's traceparent is read as such: as an id it stands for its span, as a shared id for its trace.
Names of headers are compared without regard to case.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from antecede.core.caches import BoundedCache
from antecede.core.errors import ProtocolError, UsageError
from antecede.logs.contract import LogRecord
from antecede.protocols.logs import decode_header
from antecede.wire.topics import TopicFilter, check_filter

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_SEPARATOR: Final = re.compile(r"[,;\s]+")
_WRITERS_MAX: Final = 10_000


class HeaderNames(NamedTuple):
    """Headers of other producers that name records."""

    ids: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    #: Topic filters, in the order of a conversation.
    flow: tuple[str, ...] = ()


class Dependencies(NamedTuple):
    """What a record is called, and what it depends on."""

    ids: tuple[str, ...] = ()
    deps: tuple[tuple[int, int], ...] = ()
    causes: tuple[str, ...] = ()
    #: A copy of a record, or one that only stands for one that was given up.
    empty: bool = False


_NONE: Final = Dependencies()


class DependencyReader:
    """Reads the dependencies of records in the order in which a reader is shown them."""

    def __init__(self, names: HeaderNames) -> None:
        """Raises `UsageError` if `names` cannot tell an order."""
        self._names = HeaderNames(_lower(names.ids), _lower(names.causes), _lower(names.shared), names.flow)
        for pattern in names.flow:
            check_filter(pattern)
        self._flow = [TopicFilter(pattern).matches for pattern in names.flow]
        if bool(names.ids) != bool(names.causes):
            remedy = "give --id and --cause together, for example --id message-id --cause causation-id"
            raise UsageError("headers", names.ids or names.causes, "name only one end of a dependency", remedy)
        if bool(names.shared) != bool(names.flow) or len(names.flow) == 1:
            remedy = "give --correlation and --flow together, for example --flow 'orders/#,shipping/#'"
            raise UsageError("flow", ",".join(names.flow), "does not say which topic comes first", remedy)
        #: By log and writer: the highest number met, and the past of the last record.
        self._writers: BoundedCache[tuple[int, int], tuple[int, tuple[tuple[int, int], ...]]] = BoundedCache(
            _WRITERS_MAX
        )
        self.malformed = 0

    def read(self, log: int, record: LogRecord, positions: Mapping[int, int]) -> Dependencies:
        """`positions`: by log, the last offset that the reader was shown."""
        found = _NONE
        if record.header is not None:
            found = self._ours(log, record.header, positions)
        if record.headers and (self._names.ids or self._names.shared):
            lower = {name.lower(): value for name, value in record.headers.items()}
            ids, causes = self._conversation(record.topic, lower)
            ids += [_span(lower[name]) for name in self._names.ids if name in lower]
            for name in self._names.causes:
                causes += [_span(word) for word in _SEPARATOR.split(lower.get(name, "")) if word]
            found = found._replace(ids=tuple(ids), causes=tuple(causes))
        return found

    def _ours(self, log: int, data: bytes, positions: Mapping[int, int]) -> Dependencies:
        try:
            header = decode_header(data)
        except ProtocolError:
            self.malformed += 1
            return _NONE
        key = (log, header.writer)
        highest, before = self._writers.get(key, (0, ()))
        self._writers[key] = (max(highest, header.number), header.past)
        # A retry below the highest number may be the first copy that arrived. It counts as a copy: rather too little
        # is reported than too much.
        if header.tombstone or (header.retry and header.number <= highest):
            return Dependencies(empty=True)
        # A past is transitive: most of it was in the writer's last record here already, and holds if the reader has it.
        new = [entry for entry in header.past if entry not in before or positions.get(entry[0], -1) < entry[1]]
        return Dependencies(deps=tuple(new))

    def _conversation(self, topic: str, headers: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """The ids of a record within its conversations, and those that come before it there."""
        stage = next((at for at, matches in enumerate(self._flow) if matches(topic)), None)
        if stage is None:
            return [], []
        shared = [f"{name}={_trace(headers[name])}" for name in self._names.shared if name in headers]
        ids = [f"{stage}:{one}" for one in shared]
        return ids, [f"{before}:{one}" for one in shared for before in range(stage)]


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([name.lower() for name in names])


def _span(value: str) -> str:
    found = _TRACEPARENT.fullmatch(value.strip())
    return value.strip() if found is None else f"{found[1]}-{found[2]}"


def _trace(value: str) -> str:
    found = _TRACEPARENT.fullmatch(value.strip())
    return value.strip() if found is None else found[1]
