"""The event service's topics at this node: what the service was asked for, and what its reports mean.

A service takes time, and reports "from now on" or "no longer" without saying which request it answers. A report about
an earlier subscription must not count for a later one: a node would then ask managers for its start number too soon,
and miss what is published until the service really starts. So a topic is released only while it is given. If it is
wanted again during the release, reports count only after the release has ended.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from antecede.protocols.tno.outbox import ModuleOutbox

#: Asked for; given; being released; being released and asked for again. Other topics are not served.
_Stage: TypeAlias = Literal["coming", "given", "going", "returning"]


class Attachments:
    """The topics of one node at its event service."""

    def __init__(self, out: ModuleOutbox, given: Iterable[str]) -> None:
        """`given`: topics that the service gives from the beginning."""
        self._out = out
        self._stages: dict[str, _Stage] = {}
        self.begin(given)

    def begin(self, given: Iterable[str]) -> None:
        """Start with these topics given, and no others."""
        self._stages = dict.fromkeys(given, "given")

    # -- requests -----------------------------------------------------------------------------------------------

    def need(self, topic: str) -> None:
        """Ask for the topic unless it is given or asked for."""
        stage = self._stages.get(topic)
        if stage is None or stage == "going":
            self._stages[topic] = "coming" if stage is None else "returning"
            self._out.ens_subscribe(topic)

    def release(self, topic: str) -> None:
        """Release a topic, which must be given."""
        assert self._stages[topic] == "given", f"{topic} is {self._stages[topic]}"
        self._stages[topic] = "going"
        self._out.ens_unsubscribe(topic)

    # -- reports ------------------------------------------------------------------------------------------------

    def joined(self, topic: str) -> bool:
        """The service reports that it gives `topic` from now on. False: the report is about an earlier subscription."""
        if self._stages.get(topic) in ("going", "returning"):
            return False
        self._stages[topic] = "given"
        return True

    def left(self, topic: str) -> bool:
        """The service reports that it no longer gives `topic`. True: unasked; it has broken off."""
        stage = self._stages.get(topic)
        if stage == "given":
            self._stages[topic] = "coming"
            self._out.ens_subscribe(topic)  # mostly it resumes by itself, and this has no effect
            return True
        if stage == "going":
            del self._stages[topic]
        elif stage == "returning":
            self._stages[topic] = "coming"
        return False

    # -- questions ----------------------------------------------------------------------------------------------

    def gives(self, topic: str) -> bool:
        return self._stages.get(topic) == "given"

    def besides(self, wanted: set[str]) -> list[str]:
        """The given topics that are not among `wanted`."""
        if self._stages.keys() <= wanted:
            return []
        return [topic for topic, stage in self._stages.items() if stage == "given" and topic not in wanted]
