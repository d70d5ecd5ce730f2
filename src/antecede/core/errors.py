"""Every error that antecede raises on purpose, below one root.

Rule of this file: an error says in one line what was wrong, with which value, and what to do about it. A `UsageError`
is the caller's mistake (an option, a file, an argument), a `ProtocolError` a peer's (a frame, a packet), a `LimitError`
a bound that was reached. Any other exception that escapes is a bug in antecede.
"""

from typing import Final

#: What to do about a refusal, by its reason (`wire.transport.Reason`), where the client or operator can do something.
_REMEDIES: Final = {
    "untrusted": "show a token or certificate it knows",
    "cluster": "name the cluster it belongs to",
    "version": "use the same or neighbouring releases at both ends",
    "settings": "give both the same value",
}


class AntecedeError(Exception):
    """The root of all errors: `except AntecedeError` catches everything antecede raises on purpose."""


class UsageError(AntecedeError, ValueError):
    """A value that the caller passed cannot be used. Nothing was done."""

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        self.field = field
        self.value = value
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{field} {value!r}: {problem}; {remedy}")


class MissingExtraError(AntecedeError):
    """A library that only an extra installs is missing. Nothing was done; the text has the pip command."""

    def __init__(self, user: str, extra: str) -> None:
        self.user = user
        self.extra = extra
        super().__init__(f"{user} needs the extra {extra}; pip install 'antecede[{extra}]'")


class ProtocolError(AntecedeError):
    """A peer sent a packet that the protocol does not allow. The packet was refused and changed nothing."""


class LimitError(AntecedeError):
    """A bound of `core.limits` was reached. The operation did not happen."""

    def __init__(self, what: str, value: int, limit: int, remedy: str) -> None:
        self.what = what
        self.value = value
        self.limit = limit
        super().__init__(f"{what} is {value}, the limit is {limit}; {remedy}")


class RefusedError(AntecedeError):
    """The other side refused the connection. A retry helps only if the cause named by `reason` is temporary."""

    def __init__(self, who: str, reason: str, detail: str = "") -> None:
        self.who = who
        self.reason = reason
        self.detail = detail
        said = f"{who} refused the connection: {reason}{f' ({detail})' if detail else ''}"
        super().__init__(f"{said}; {_REMEDIES[reason]}" if reason in _REMEDIES else said)


class UnreachableError(AntecedeError):
    """No antecede node answered at an address. Nothing was sent."""

    def __init__(self, who: str, problem: str) -> None:
        self.who = who
        self.problem = problem
        super().__init__(f"{who} cannot be reached: {problem}; check the address and that a node runs there")


class StoppedError(AntecedeError):
    """The node has stopped, by request or by a failure that is this error's cause. Nothing was done."""


class JournalError(AntecedeError):
    """The journal at `path` cannot be opened or written. The text says what to do."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        self.path = path
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"journal {path}: {problem}; {remedy}")


class GapError(AntecedeError):
    """Messages after a cursor can no longer be read. The reader is told instead of skipping them.

    `after` is the position asked for, `first` the first position that can still be read. A reader that came from
    another node asked for no position: `missing` names the messages that this node does not have, as (source, first
    sequence number, last sequence number). `text`: what the node said.
    """

    def __init__(
        self, after: int, first: int, missing: tuple[tuple[int, int, int], ...] = (), *, text: str = ""
    ) -> None:
        self.after = after
        self.first = first
        self.missing = missing
        super().__init__(text or self._in_words())

    def _in_words(self) -> str:
        if not self.missing:
            removed = f"positions {self.after + 1} to {self.first - 1} were removed by retention"
            return f"{removed}; read on from {self.first - 1}, or keep a named cursor so that retention waits"
        some = ", ".join(
            f"{source}.{low}" if low == high else f"{source}.{low} to {source}.{high}"
            for source, low, high in self.missing[:5]
        )
        more = f" and of {len(self.missing) - 5} more nodes" if len(self.missing) > 5 else ""
        problem = f"this node does not have messages {some}{more}: they are older than its journal"
        return f'{problem}; read at a node that has them, or from what this one has (since="0")'


class ConnectionLostError(AntecedeError):
    """The connection to the node was lost and not restored in time. Feeds and publications end with this error."""


class PublishError(AntecedeError):
    """A publication was not acknowledged. `may_arrive` says whether the message may still be delivered."""

    def __init__(self, problem: str, *, may_arrive: bool) -> None:
        self.may_arrive = may_arrive
        outcome = "it may still be delivered" if may_arrive else "it was not published"
        super().__init__(f"{problem}; {outcome}")


class DeniedError(AntecedeError):
    """The client's token does not grant the operation. Nothing was done."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}; its token does not grant it (`antecede token --help`)")


class SlowReaderError(AntecedeError):
    """The reader of a feed with policy "disconnect" fell behind, and the feed ended."""


class LostHistoryError(AntecedeError):
    """The node restarted without a journal: messages published while this feed was disconnected are lost.

    Open the feed again to read from now on.
    """
