"""What a random search is: a function of a seed that makes a run, has it judged, and says what it found.

"No violation in ten thousand runs" is a claim about such a function. It runs in a test's loop, under hypothesis and as
tasks on Spark (`antecede search`), and the seed alone brings a failure back. The searches there are stand in
`experiments.searches`.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed."""

    seed: int
    #: Rules of the audit that were violated, and what else went wrong: "blocked", "restless".
    violated: tuple[str, ...]
    #: The first offence of each, in words.
    words: str
    messages: int
    deliveries: int
    packets: int

    @property
    def ok(self) -> bool:
        return not self.violated


#: Equal seeds give equal verdicts, in any process.
SearchSeed: TypeAlias = Callable[[int], Verdict]


class Search(NamedTuple):
    """A search as the command line lists it."""

    summary: str
    run: SearchSeed
