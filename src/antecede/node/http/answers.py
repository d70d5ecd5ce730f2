"""What a request is answered with. Errors are JSON that names the field, its value, the problem and the remedy."""

from typing import Any, Final, NamedTuple

import msgspec

from antecede.core import AntecedeError, LimitError, UsageError

JSON: Final = "application/json"

#: How a request must show its token: as a bearer token, or as a password, for which browsers ask by themselves.
ASK_FOR_TOKEN: Final = (
    ("WWW-Authenticate", 'Basic realm="antecede", charset="UTF-8"'),
    ("WWW-Authenticate", "Bearer"),
)
#: Headers of an answer that says: try again soon.
SOON: Final = (("Retry-After", "1"),)

#: Characters of a value that an error repeats.
_VALUE_MAX: Final = 200


class Answer(NamedTuple):
    """What a request is answered with."""

    status: int
    body: str | bytes
    kind: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    #: May the connection carry another request?
    keep: bool = False


def refusal(
    status: int,
    field: str,
    value: object,
    problem: str,
    remedy: str,
    *,
    headers: tuple[tuple[str, str], ...] = (),
    **more: Any,
) -> Answer:
    """An error. `more`: further members of the answer."""
    shown = value if isinstance(value, int | float | None) else str(value)[:_VALUE_MAX]
    error = {"field": field, "value": shown, "problem": problem, "remedy": remedy}
    return Answer(status, msgspec.json.encode({"error": error, **more}).decode() + "\n", JSON, headers)


def mistake(error: AntecedeError) -> Answer:
    """The client asked for what cannot be done."""
    if isinstance(error, UsageError):
        return refusal(400, error.field, error.value, error.problem, error.remedy)
    if isinstance(error, LimitError):
        problem, _, remedy = str(error).partition("; ")
        return refusal(413, error.what, error.value, problem, remedy)
    return refusal(400, "request", "", str(error), "see /openapi.json")
