"""The log's names: what neighbours know of them, held to a plain set for each neighbour."""

import random

from antecede.protocols.locamu.identifiers import link
from antecede.protocols.locamu.log import Names

ME, NODES, LINKS = 0, range(1, 4), [link(sender, to) for sender in range(5) for to in range(5) if sender != to]


def test_what_neighbours_know_of_a_message() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        names = Names()
        talks, known = dict.fromkeys(NODES, 1), {node: set[int]() for node in NODES}
        for _ in range(30):
            node = rng.choice(NODES)
            untold = [at for at in names.ids if at not in known[node]]
            assert names.untold(node, talks[node]) == untold
            match rng.randrange(5):
                case 0:
                    new = rng.sample(LINKS, 3)
                    names.ids.update({at: rng.randrange(9) for at in new if at not in names.ids})
                case 1:  # also of names that do not denote it here yet
                    told = rng.sample(LINKS, rng.randrange(6))
                    names.tell(node, talks[node], told)
                    known[node].update(told)
                case 2:
                    names.tell_all(node, talks[node])
                    known[node].update(names.ids)
                case 3:
                    record = names.record(ME, node, talks[node])
                    assert bool(record) == bool(untold)
                    assert record.items() <= names.ids.items()
                    assert record.keys() >= set(untold)
                    known[node].update(untold)
                case _:
                    if rng.random() < 0.3:
                        talks[node] += 1
                        known[node].clear()
