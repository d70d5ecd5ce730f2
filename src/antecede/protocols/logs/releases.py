"""What a reader of several logs gives out: releases, gaps and holes; and where it stands, its cursor."""

from typing import Generic, NamedTuple, TypeAlias, TypeVar

R = TypeVar("R")


class Release(NamedTuple, Generic[R]):
    """A record that may be given to the application now."""

    log: int
    offset: int
    record: R
    past: tuple[tuple[int, int], ...]
    #: It was overtaken: it was in flight when this reader started.
    late: bool = False
    #: Retention removed something that it names.
    incomplete: bool = False
    #: It is a retry in a log that is not read whole: its first copy may lie in the part that was not read.
    may_be_copy: bool = False
    #: Numbers of its writer right before it were given up, or removed.
    behind_hole: bool = False

    @property
    def out_of_order(self) -> bool:
        """Records that depend on it may have been released before it."""
        return self.late or self.may_be_copy


class Gap(NamedTuple):
    """Retention removed these offsets before they were read."""

    log: int
    first: int
    last: int


class Hole(NamedTuple):
    """Numbers of a writer that have not come, while a later one has."""

    log: int
    writer: int
    key: str
    first: int
    upto: int


class ChannelCursor(NamedTuple):
    """How far a reader is with one writer's channel."""

    writer: int
    key: str
    #: The last number taken.
    taken: int
    #: Lower numbers were in flight when the reader met the writer, but for those in `late`, which came.
    late_below: int = 0
    late: tuple[int, ...] = ()
    #: Numbers that were given up and may still come.
    given_up: tuple[int, ...] = ()
    #: It was not heard since the log's last gap.
    stale: bool = False


class LogCursor(NamedTuple):
    """How far a reader is in one log."""

    #: Everything up to here is done.
    low: int
    #: Offsets above `low` that are done.
    beyond: tuple[int, ...] = ()
    #: The channels heard last.
    channels: tuple[ChannelCursor, ...] = ()
    #: The last gaps that the reader was told of.
    gaps: tuple[tuple[int, int], ...] = ()


#: By log.
Cursor: TypeAlias = dict[int, LogCursor]
