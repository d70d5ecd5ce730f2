"""One root for every error this package raises on purpose.

Rules of this file: an error says what was wrong, with which value, and what to do about it, in one line.
`UsageError` is the caller's mistake (an option, a file, an argument); `ProtocolError` is a peer's (a frame,
a packet); `LimitError` is a bound that was reached. Anything else that escapes is a bug of ours.
"""


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


class ProtocolError(AntecedeError):
    """A peer sent something the protocol does not allow. Its packet was refused and changed nothing."""


class LimitError(AntecedeError):
    """A stated bound was reached (see `core.limits`). The operation did not happen."""

    def __init__(self, what: str, value: int, limit: int, remedy: str) -> None:
        self.what = what
        self.value = value
        self.limit = limit
        super().__init__(f"{what} is {value}, the limit is {limit}; {remedy}")
