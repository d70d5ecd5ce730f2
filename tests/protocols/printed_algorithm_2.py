"""Algorithm 2 of the thesis, line by line: full vector clocks, rescanning, no cleverness.

It is the oracle the fast protocol is compared with, and the place where each error of the printed text can be put back
(`mistakes`), to see that the tests would have caught it.
"""

from antecede.core import Message, Packet, Process
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.sizes import ByteModel

MISTAKES = {
    "children-from-cluster-2": "Algorithm 1, line 3: 1 < s instead of 1 ≤ s",
    "aggregate-inside-while": "Algorithm 2, lines 19-22 inside the while that advances vector_max",
    "deliver-inside-while": "CHECKDELIVERY inside the while: messages go before they are forwarded",
    "no-first-condition": "line 27 without m'.vc[m.s] ≥ m.vc[m.s]",
    "exception-for-the-receiver": "line 31 excepts the receiver's own entry instead of the source's",
}


class PrintedAlgorithm2(Process):
    """The corrected algorithm; with `mistakes`, the printed one."""

    def __init__(self, node: int, nodes: int, mistakes: frozenset[str] = frozenset()) -> None:
        super().__init__(node)
        assert mistakes <= MISTAKES.keys()
        self.n = nodes
        self.d = (nodes - 1).bit_length()
        self.mistakes = mistakes
        self.vector_clock = [0] * nodes
        self.vector_max = [0] * nodes
        self.pending: list[tuple[Message, list[int]]] = []
        self.clocks: dict[tuple[int, int], list[int]] = {}

    # -- Algorithm 1 ------------------------------------------------------------------------------------------------

    def cluster(self, i: int, j: int) -> int:
        return next(s for s in range(1, self.d + 1) if j in self.cluster_list(i, s))

    def cluster_list(self, i: int, s: int) -> list[int]:
        first = i ^ (1 << (s - 1))
        return [first] + [node for k in range(1, s) for node in self.cluster_list(first, k)]

    def children(self, i: int, r: int, h: int) -> list[int]:
        if i == r:
            least = 2 if "children-from-cluster-2" in self.mistakes else 1
            return [self.cluster_list(i, s)[0] for s in range(least, h + 1)]
        s = self.cluster(r, i)
        return self.children(i, self.cluster_list(r, s)[0], s - 1)

    # -- Algorithm 2 ------------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        self.vector_clock[self.node] += 1
        self.vector_max[self.node] = self.vector_clock[self.node]
        vc = list(self.vector_clock)
        deps = tuple((k, count) for k, count in enumerate(vc) if count and k != self.node)
        m = Message(topic, self.node, vc[self.node], deps, payload)
        self.out.deliver(m)
        for k in self.children(self.node, self.node, self.d):
            self.out.send(k, Bundle((m,)))
        return m

    def receive(self, sender: int, packet: Packet) -> None:
        for m in packet.messages:
            vc = [0] * self.n
            for k, count in m.deps:
                vc[k] = count
            vc[m.source] = m.seq
            self.pending.append((m, vc))
            advanced = False
            while found := [(m1, v1) for m1, v1 in self.pending if v1[m1.source] == self.vector_max[m1.source] + 1]:
                advanced = True
                self.vector_max[found[0][0].source] += 1
                if "deliver-inside-while" in self.mistakes:
                    self.check_delivery()
                if "aggregate-inside-while" in self.mistakes:
                    self.forward(sender, m, vc)
            if advanced and "aggregate-inside-while" not in self.mistakes:
                self.forward(sender, m, vc)
        self.check_delivery()

    def forward(self, sender: int, m: Message, vc: list[int]) -> None:
        for k in self.children(self.node, m.source, self.d):
            agg = self.check_agg(k, m, vc)
            if agg:
                self.out.send(k, Bundle(tuple(agg)))

    def check_agg(self, k: int, m: Message, vc: list[int]) -> list[Message]:
        agg = []
        for m1, v1 in self.pending:
            if k not in self.children(self.node, m1.source, self.d):
                continue
            precedes = "no-first-condition" in self.mistakes or v1[m.source] >= vc[m.source]
            missing = any(
                v1[s] > self.vector_max[s] and k in self.children(self.node, s, self.d) for s in range(self.n) if v1[s]
            )
            if precedes and not missing:
                agg.append(m1)
        return agg

    def check_delivery(self) -> None:
        while True:
            ready = next(((m, vc) for m, vc in self.pending if self.deliverable(m, vc)), None)
            if ready is None:
                return
            self.out.deliver(ready[0])
            self.vector_clock[ready[0].source] += 1
            self.pending.remove(ready)

    def deliverable(self, m: Message, vc: list[int]) -> bool:
        excepted = self.node if "exception-for-the-receiver" in self.mistakes else m.source
        return vc[m.source] == self.vector_clock[m.source] + 1 and all(
            vc[k] <= self.vector_clock[k] for k in range(self.n) if k != excepted
        )

    def size(self, packet: Packet) -> int:
        return ByteModel().packet(packet.messages)

    @property
    def held(self) -> int:
        return len(self.pending)
