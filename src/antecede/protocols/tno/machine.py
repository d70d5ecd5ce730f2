"""What is replicated: a machine that takes requests one after the other and says what to send.

A machine is a function of its first state and of the requests it took, so replicas that take the same ones are the
same. Nothing it says is sent before enough replicas have the request (`replica`). It does not know which of them it is.
"""

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

from antecede.core import Packet
from antecede.protocols.tno.packets import Request

#: What to send: to a node, or to the manager of a topic.
Out: TypeAlias = tuple[int | str, Packet]

#: now: `apply` it. early: something before it is missing, offer it again. old: it changes nothing, `again` answers it.
Judgement: TypeAlias = Literal["now", "early", "old"]


class Machine(ABC):
    """A manager of a topic, or the keeper of the order."""

    @abstractmethod
    def judge(self, request: Request) -> Judgement: ...

    @abstractmethod
    def apply(self, request: Request) -> list[Out]:
        """Take a request that is due now."""

    @abstractmethod
    def again(self, request: Request) -> list[Out]:
        """The answer to a request that was taken before. Changes nothing."""

    @abstractmethod
    def unfinished(self) -> list[Out]:
        """What was sent and not yet answered: to be sent again after a while."""

    @abstractmethod
    def save(self) -> bytes:
        """Everything it knows."""

    @abstractmethod
    def load(self, state: bytes) -> None: ...
