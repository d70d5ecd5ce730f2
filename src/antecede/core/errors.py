"""One root for every error this package raises on purpose.

Rules of this file: an error says what was wrong, with which value, and what to do about it, in one line.
`UsageError` is the caller's mistake (an option, a file, an argument); `ProtocolError` is a peer's (a frame,
a packet); `LimitError` is a bound that was reached. Anything else that escapes is a bug of ours.
"""

from typing import Final

#: What to do about a refusal, by its reason (`transport.Reason`), where that is not for the node alone to know.
_REMEDIES: Final = {
    "untrusted": "show a token or certificate it knows",
    "cluster": "name the cluster it belongs to",
    "version": "use the same or neighbouring releases at both ends",
    "settings": "give both the same value",
}


class AntecedeError(Exception):
    """The root: `except AntecedeError` catches everything antecede raises on purpose."""


class UsageError(AntecedeError, ValueError):
    """Something the caller passed cannot be used. Nothing was done."""

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
    """A peer sent something the protocol does not allow. Its packet was refused and changed nothing."""


class LimitError(AntecedeError):
    """A stated bound was reached (see `core.limits`). The operation did not happen."""

    def __init__(self, what: str, value: int, limit: int, remedy: str) -> None:
        self.what = what
        self.value = value
        self.limit = limit
        super().__init__(f"{what} is {value}, the limit is {limit}; {remedy}")


class RefusedError(AntecedeError):
    """The other side answered and said no. Trying again changes nothing unless `reason` is one that passes."""

    def __init__(self, who: str, reason: str, detail: str = "") -> None:
        self.who = who
        self.reason = reason
        self.detail = detail
        said = f"{who} refused the connection: {reason}{f' ({detail})' if detail else ''}"
        super().__init__(f"{said}; {_REMEDIES[reason]}" if reason in _REMEDIES else said)


class UnreachableError(AntecedeError):
    """Nobody answered at an address, or what answered was not antecede. Nothing was sent."""

    def __init__(self, who: str, problem: str) -> None:
        self.who = who
        self.problem = problem
        super().__init__(f"{who} cannot be reached: {problem}; check the address and that a node runs there")


class StoppedError(AntecedeError):
    """The node has stopped, by request or by a failure that is this error's cause. Nothing was done."""


class JournalError(AntecedeError):
    """A journal cannot be opened or written. `path` says which, the message what to do."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        self.path = path
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"journal {path}: {problem}; {remedy}")


class GapError(AntecedeError):
    """What lies after a cursor is no longer there: told, never skipped in silence.

    `after` is the position asked for, `first` the first one that can still be read.
    """

    def __init__(self, after: int, first: int) -> None:
        self.after = after
        self.first = first
        super().__init__(
            f"positions {after + 1} to {first - 1} were removed by retention; read on from {first - 1}, "
            "or keep a named cursor so that retention waits"
        )


class ConnectionLostError(AntecedeError):
    """The node went away and could not be reached again in time. Feeds and publications end with this."""


class PublishError(AntecedeError):
    """A publication was not acknowledged. `may_arrive` says whether it may be delivered all the same."""

    def __init__(self, problem: str, *, may_arrive: bool) -> None:
        self.may_arrive = may_arrive
        outcome = "it may still be delivered" if may_arrive else "it was not published"
        super().__init__(f"{problem}; {outcome}")


class DeniedError(AntecedeError):
    """The node knows this client and does not let it do that. Nothing was done."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}; its token does not grant it (`antecede token --help`)")


class SlowReaderError(AntecedeError):
    """The feed was opened with policy "disconnect", and its reader fell behind."""


class LostHistoryError(AntecedeError):
    """The node was started anew without a journal: what was published while this feed was away is lost.

    Open the feed again to read on from now.
    """
