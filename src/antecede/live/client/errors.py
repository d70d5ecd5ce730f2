"""What a client of the bus may meet, beyond `core.errors` and `live.errors`. Same root, same rule."""

from antecede.core.errors import AntecedeError


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
