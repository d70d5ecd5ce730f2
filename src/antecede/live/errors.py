"""What the live system raises beyond `core.errors`. Same root, same rule: what, with which value, what to do."""

from typing import Final

from antecede.core.errors import AntecedeError

#: What to do about a refusal, by its reason (`transport.Reason`), where that is not for the node alone to know.
_REMEDIES: Final = {
    "untrusted": "show a token or certificate it knows",
    "cluster": "name the cluster it belongs to",
    "version": "use the same release at both ends",
}


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
