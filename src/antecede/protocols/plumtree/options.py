"""Options of Plumtree over HyParView."""

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, structs

from antecede.core import Outbox
from antecede.core.rng import MakeRng, Rng
from antecede.protocols.options import TICKS, Founders, MakeProcess, RngOptions, taken_by
from antecede.protocols.plumtree.order import CausalOrder, NoOrder
from antecede.protocols.plumtree.process import PlumtreeNode
from antecede.protocols.plumtree.thicket import Thicket
from antecede.protocols.plumtree.tree import Plumtree, TreeSettings
from antecede.protocols.plumtree.views import ViewSettings

Units = Annotated[float, Meta(gt=0)]


class PlumtreeOptions(RngOptions, frozen=True, kw_only=True):
    """Views of the paper's sizes. Founders begin with random views that are symmetric; others join at a founder."""

    tree_type: ClassVar[type[Plumtree]] = Plumtree

    #: Deliver in causal order, or when a message comes.
    order: Literal["causal", "none"] = "causal"
    active: Annotated[int, Meta(ge=3, le=64)] = 5
    passive: Annotated[int, Meta(ge=1, le=1024)] = 30
    #: Time between two shuffles of a node while messages come, and until a request without an answer is repeated.
    shuffle: Units = 2000.0
    answer: Units = 1000.0
    #: How long announcements are collected; 0: not at all.
    announce: Annotated[float, Meta(ge=0)] = 50.0
    #: How long an announced message may take, and each further announcer.
    missing: Units = 400.0
    graft: Units = 400.0
    #: Neighbours asked for a predecessor before it is given up.
    attempts: Annotated[int, Meta(ge=1)] = 8
    #: By how many links an announcement must be shorter to change the tree.
    threshold: Annotated[int, Meta(ge=1)] = 7
    store: Annotated[int, Meta(ge=1)] = 65_536

    @property
    def promises(self) -> tuple[str, ...]:
        order = ("causal", "fifo") if self.order == "causal" else ()
        return (*order, "exactly-once", "no-invention")

    def tree_settings(self) -> TreeSettings:
        return TreeSettings(
            announce_us=round(self.announce * TICKS),
            missing_us=round(self.missing * TICKS),
            graft_us=round(self.graft * TICKS),
            attempts=self.attempts,
            threshold=self.threshold,
            store_max=self.store,
        )

    def build_with_rng(self, nodes: int, founders: Founders, rng: MakeRng) -> MakeProcess:
        views = ViewSettings(
            active=self.active,
            passive=self.passive,
            shuffle_us=round(self.shuffle * TICKS),
            answer_us=round(self.answer * TICKS),
        )
        tree = self.tree_settings()
        taken = taken_by(founders)
        drawn = rng(nodes)  # of no node: it draws the first views
        links = {topic: links_of(sorted(members), self.active, drawn) for topic, members in founders.items()}
        order = CausalOrder if self.order == "causal" else NoOrder

        def make_tree(topic: str, node: int, out: Outbox, own: Rng) -> Plumtree | None:
            if not founders.get(topic):
                return None
            made = self.tree_type(topic, node, out, own, views, tree, order(), sorted(founders[topic]))
            if node in links[topic]:
                others = [other for other in links[topic] if other not in (node, *links[topic][node])]
                passive = others if len(others) <= self.passive else own.sample(others, self.passive)
                made.found(links[topic][node], passive)
            return made

        return lambda node: PlumtreeNode(node, make_tree, sorted(taken.get(node, ())), rng(node))


class ThicketOptions(PlumtreeOptions, frozen=True, kw_only=True):
    """Several trees on the same views, which have more links for it."""

    tree_type: ClassVar[type[Plumtree]] = Thicket

    active: Annotated[int, Meta(ge=3, le=64)] = 12
    #: How many trees there are; a source deals its messages out to them in turn.
    trees: Annotated[int, Meta(ge=1, le=64)] = 4
    #: How many links a node adds when it begins to forward in a tree; 0: all.
    fanout: Annotated[int, Meta(ge=0)] = 4

    def tree_settings(self) -> TreeSettings:
        return structs.replace(super().tree_settings(), trees=self.trees, fanout=self.fanout or self.active)


def links_of(members: Collection[int], degree: int, rng: Rng) -> dict[int, list[int]]:
    """A random graph that is connected: a ring in random order, and links drawn until views are full but for one.

    The free entry is for joiners: HyParView drops members where there is none.
    """
    ring = rng.sample(list(members), len(members))
    links: dict[int, list[int]] = {node: [] for node in ring}

    def connect(one: int, other: int) -> None:
        if one != other and other not in links[one]:
            links[one].append(other)
            links[other].append(one)

    for one, other in zip(ring, ring[1:] + ring[:1], strict=True):
        connect(one, other)
    for node in ring:
        able = [other for other in ring if len(links[other]) < degree - 1 and other != node]
        for other in rng.sample(able, len(able))[: degree - 1]:
            if len(links[node]) < degree - 1:
                connect(node, other)
    return links
