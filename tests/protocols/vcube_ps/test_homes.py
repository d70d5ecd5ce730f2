"""Homes of partitions change while nodes join, leave, crash and lose their directories (`protocols.homes`)."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
import pytest

from antecede.core import Message
from antecede.protocols.homes.copies import Copies, kept_at
from antecede.protocols.homes.duties import Duties
from antecede.protocols.homes.reading import Candidates, Found, candidates, read_elsewhere
from antecede.protocols.homes.records import Ask, AskHome, HomeState, ReadStream, StreamPage
from antecede.search.vcube_ps import Trial, VCubePsRun, homes_of, partitions_of, search, trial_of
from tests.protocols.vcube_ps import mutations_homes as mutations

#: Nodes that left at a time relied on each other (547); then each waited for the other (572, 608).
LEFT_TOGETHER = (547, 572, 608)
#: A join waited for a node that had left.
WAITED_FOR_THE_LEFT = (454,)
#: A node left before members that were down had its messages.
LEFT_TOO_SOON = (786,)


@pytest.mark.parametrize("seed", [*range(15), *LEFT_TOGETHER, *WAITED_FOR_THE_LEFT, *LEFT_TOO_SOON])
def test_drawn_homes(seed: int) -> None:
    verdict = search(seed, homes_of(seed))
    assert verdict.ok, (homes_of(seed), verdict.words)


def test_a_home_does_not_take_messages_for_gone_that_a_member_unknown_to_it_has() -> None:
    verdict = search(7833)
    assert verdict.ok, verdict


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_drawn_homes(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        verdict = search(seed, homes_of(seed))
        assert verdict.ok, (seed, homes_of(seed), verdict.words)


def test_the_search_draws_what_it_says() -> None:
    """Nodes join, leave and are lost, homes fetch and let go, publications are acknowledged; and seeds draw that."""
    happened: dict[str, int] = {}
    for seed in range(6):
        run = VCubePsRun(seed, homes_of(seed))
        assert run.judge().ok
        assert run.homes is not None
        assert len(run.homes.acknowledged) > 10
        for what, count in run.homes.happened.items():
            happened[what] = happened.get(what, 0) + count
    assert happened.keys() >= {"joined", "left", "lost", "let go", "fetched"}
    assert sum([trial_of(seed).replicas > 0 for seed in range(200)]) > 10


#: One topic, two homes; a node that had delivered messages of a publisher outside is lost before the homes join.
LATE_HOMES = msgspec.structs.replace(
    partitions_of(314),
    nodes=8,
    topics=1,
    domain="all",
    log=True,
    drop_stable=True,
    outside=0.5,
    leaves=0.05,
    replicas=2,
    copies=2,
    members=6,
    grows=2,
    shrinks=2,
    forgets=1,
)

#: By error: a seed and a trial that show it. An acknowledged message is missing at a home, or at a reader.
FOUND: dict[Callable[[], AbstractContextManager[None]], tuple[int, Trial]] = {
    mutations.lets_go_too_early: (2, homes_of(2)),
    mutations.calls_every_member_whole: (135, homes_of(135)),
    mutations.trusts_nodes_that_leave: (92, homes_of(92)),
    mutations.counts_floors_as_copies: (314, LATE_HOMES),
    mutations.takes_silence_for_no: (103, homes_of(103)),
    mutations.reads_no_past: (0, homes_of(0)),
}


@pytest.mark.parametrize("mutation", FOUND, ids=lambda mutation: mutation.__name__)
def test_a_known_seed_shows_the_error(
    mutation: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VCubePsRun, "events_max", 100_000)
    seed, trial = FOUND[mutation]
    with mutation():
        assert "kept" in search(seed, trial).violated
    assert search(seed, trial).ok


def test_a_message_below_the_floor_of_a_home_is_a_copy_once_the_home_has_it() -> None:
    copies = Copies()
    assert copies.note(3, 9, 6)
    assert not copies.note(3, 9, 6)
    assert [copies.keeps(3, seq) for seq in (6, 7, 9, 10)] == [False, True, True, False]
    assert copies.may_keep(3, [5, 6, 7]) == [5, 6]
    steps = kept_at(3, "p1", 0, [5, 6])
    assert next(steps) == Ask(3, ReadStream(0, "p1", 0, 5, 6))
    with pytest.raises(StopIteration) as ended:
        steps.send(StreamPage(0, (Message("p1", 0, 6, (), b""),), 6, 9))
    assert ended.value.value == {6}
    copies.confirm(3, ended.value.value)
    assert [copies.keeps(3, seq) for seq in (5, 6)] == [False, True]
    assert copies.forget(3)
    assert not copies.keeps(3, 6)


def test_a_former_home_that_became_a_home_again_asks_anew() -> None:
    """With one home for each partition, node 0 loses all partitions of which node 1 has the higher hash."""
    duties = Duties(0, 1, 60.0)
    duties.find_homes(8, [0], 0.0)
    duties.find_homes(8, [0, 1], 0.0)
    lost = next(one for one in range(8) if one not in duties.homes)
    steps = duties.let_go(lost, f"p{lost}", [0, 1], {0: 4}, 0.0)
    assert next(steps) == Ask(1, AskHome(0, f"p{lost}"))
    with pytest.raises(StopIteration):
        steps.send(HomeState(0, True, ((0, 4),)))
    assert duties.may_leave(lost)
    duties.find_homes(8, [0], 0.0)
    assert not duties.may_leave(lost)
    duties.find_homes(8, [0, 1], 0.0)
    assert not duties.may_leave(lost)


def test_a_node_that_a_former_home_relies_on_does_not_take_the_partition_in_passing() -> None:
    duties = Duties(0, 1, 60.0)
    duties.take_in_passing(5)
    assert duties.may_leave(5)
    assert duties.state(7, 5, member=True, lacks=False, reached={1: 3}) == HomeState(7, True, ((1, 3),))
    assert not duties.may_leave(5)


def test_a_member_that_a_node_has_not_heard_of_may_have_what_it_lacks() -> None:
    """Node 2 knows members 0, which has left, and 5, of which its roster says nothing yet: no message is gone."""
    asked = candidates(2, homes=(2,), members={0, 2, 5}, present=[1, 6], left=[0])
    assert asked == Candidates([5], [1, 6])
    steps = read_elsewhere(ReadStream(0, "t", 3, 1, 4, 1000), asked, lambda slot, messages: True)
    assert next(steps).slot == 5
    assert steps.send(None).slot == 1
    assert steps.send(StreamPage(0, (), 0, 0)).slot == 6
    with pytest.raises(StopIteration) as ended:
        steps.send(StreamPage(0, (), 0, 0))
    assert ended.value.value == Found((), 4, certain=False, answered=False)  # 1 and 6 are neither homes nor members
