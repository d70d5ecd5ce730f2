"""Publications that wait for predecessors: called once, when all are there, unless they withdrew."""

import random
from functools import partial

from antecede.node.predecessors import After, Predecessors


def test_against_a_plain_list() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        delivered = dict.fromkeys(range(3), 0)

        def missing(after: After, delivered: dict[int, int] = delivered) -> tuple[int, int] | None:
            return next((one for one in after if delivered[one[0]] < one[1]), None)

        waiting = Predecessors(missing)
        plain: dict[int, After] = {}
        called: list[int] = []
        withdraw = {}
        for number in range(60):
            kind = rng.random()
            if kind < 0.5:
                after = tuple((rng.randrange(3), rng.randint(1, 20)) for _ in range(rng.randint(1, 3)))
                if missing(after) is not None:
                    plain[number] = after
                    withdraw[number] = waiting.add(after, partial(called.append, number))
            elif kind < 0.7 and plain:
                gone = rng.choice(list(plain))
                del plain[gone]
                withdraw[gone]()
                withdraw[gone]()  # twice does no harm
            else:
                source = rng.randrange(3)
                delivered[source] += rng.randint(1, 3)
                waiting.wake([source])
                ready = [number for number, after in plain.items() if missing(after) is None]
                assert sorted(called) == ready
                for number_called in ready:
                    del plain[number_called]
                called.clear()
            assert len(waiting) == len(plain)


def test_those_who_withdrew_leave_nothing() -> None:
    waiting = Predecessors(lambda after: after[0])
    for withdraw in [waiting.add(((1, seq),), lambda: None) for seq in range(1, 20_001)]:
        withdraw()
    assert len(waiting) == 0
    assert list(waiting.streams) == []
