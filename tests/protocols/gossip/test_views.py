"""Views after any steps: none has a broker twice or is too long, and each known broker is in one."""

import random

from antecede.protocols.gossip.packets import Peer
from antecede.protocols.gossip.views import Views

GROUPS = [f"g{number}" for number in range(5)]


def test_views_stay_in_step_with_the_brokers_known() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        views, told = Views(0, 3, rng), list[Peer]()
        for _ in range(60):
            node = rng.randrange(1, 12)
            match rng.randrange(4):
                case 0:
                    views.forget(node)
                case 1:
                    views.trust(node, set(GROUPS))
                case _:
                    told.append(Peer(node, len(told), tuple(rng.sample(GROUPS, rng.randrange(5)))))
                    views.learn(rng.sample(told, min(2, len(told))), set(rng.sample(GROUPS, 4)))
            seen = set[int]()
            for group in GROUPS:
                view = views.of(group)
                assert len(view) == len(set(view)) <= 3
                assert views.down.isdisjoint(view)
                assert all(group in views.groups(one) for one in view)
                seen.update(view)
            assert len(views) == len(seen)
