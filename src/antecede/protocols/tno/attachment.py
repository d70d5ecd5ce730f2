"""What the event service gives this node, topic by topic: what it is asked for, and what its reports mean.

A service takes its time, and says "from now on" or "no more" without saying which request it answers. A report of an
earlier subscription must not be taken for one of a later: whoever then asks managers from which number on it takes the
topic misses what is published until the service gives it. So a topic is let go only once it is given, and if it is
wanted again while it is let go, nothing counts before the end of that.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from antecede.protocols.tno.outbox import ModuleOutbox

#: Asked for; given; let go; let go and asked for again. A topic that is not mentioned is away.
_Stage: TypeAlias = Literal["coming", "given", "going", "returning"]


class Attachments:
    """At one node, for all topics."""

    def __init__(self, out: ModuleOutbox, given: Iterable[str]) -> None:
        """`given`: topics the service gives from the beginning."""
        self._out = out
        self._stages: dict[str, _Stage] = {}
        self.begin(given)

    def begin(self, given: Iterable[str]) -> None:
        """These are given, all others are away."""
        self._stages = dict.fromkeys(given, "given")

    # -- requests -----------------------------------------------------------------------------------------------

    def need(self, topic: str) -> None:
        """Have it given, whatever was asked before."""
        stage = self._stages.get(topic)
        if stage is None or stage == "going":
            self._stages[topic] = "coming" if stage is None else "returning"
            self._out.ens_subscribe(topic)

    def release(self, topic: str) -> None:
        """It need not be given any more. It must be."""
        assert self._stages[topic] == "given", f"{topic} is {self._stages[topic]}"
        self._stages[topic] = "going"
        self._out.ens_unsubscribe(topic)

    # -- reports ------------------------------------------------------------------------------------------------

    def joined(self, topic: str) -> bool:
        """The service says that it gives `topic` from now on. False: that was of before."""
        if self._stages.get(topic) in ("going", "returning"):
            return False
        self._stages[topic] = "given"
        return True

    def left(self, topic: str) -> bool:
        """The service says that it gives `topic` no more. True: nobody asked it to, it has broken off."""
        stage = self._stages.get(topic)
        if stage == "given":
            self._stages[topic] = "coming"
            self._out.ens_subscribe(topic)  # mostly it begins anew by itself, and then this says nothing new
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
        """Topics that are given and not among these."""
        if self._stages.keys() <= wanted:
            return []
        return [topic for topic, stage in self._stages.items() if stage == "given" and topic not in wanted]
