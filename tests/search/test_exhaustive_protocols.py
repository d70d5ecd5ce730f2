"""Every schedule of the protocols' small models: no promise is broken, and each error put back is found.

The numbers of states are pinned: a change means that a protocol takes other steps than before, or that the explorer
does. Look at why, then write the new number down.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from antecede.core import Process
from antecede.overlay.graph_shapes import line
from antecede.protocols.vcube_ps import FaithfulVCubePs
from antecede.protocols.vcube_ps import options as vcube_options
from antecede.search.exhaustive import logs, tno
from antecede.search.exhaustive.explorer import explore
from antecede.search.exhaustive.model import Model
from antecede.search.exhaustive.registry import MODELS, find_model
from tests.protocols.gossip import mutations as gossip_errors
from tests.protocols.locamu import mutations as locamu_errors
from tests.protocols.logs import mutations as logs_errors
from tests.protocols.tno import mutations as tno_errors
from tests.protocols.vcube_ps import mutations as printed
from tests.protocols.vcube_ps import mutations_pipelined as ours

#: By model that takes about a second or less: its states, and the quiet ones among them.
SMALL = {
    "vcube-ps-loss": (494, 62),
    "vcube-ps-join": (921, 63),
    "vcube-ps-topics": (124, 14),
    "vcube-ps-faithful-join": (8975, 28),
    "gossip-loss": (64, 17),
    "gossip-loss-two": (477, 94),
    "gossip-triangle": (606, 96),
    "logs": (840, 10),
    "logs-two": (231, 2),
    "logs-crash": (2752, 152),
    "tno-join": (1811, 144),
    "locamu": (1668, 46),
}
#: Models that take up to some minutes.
LARGE = {
    "vcube-ps": (113_265, 8370),
    "vcube-ps-four": (16_448, 1538),
    "vcube-ps-recover": (21_500, 61),
    "vcube-ps-publisher-recovers": (216_541, 891),
    "vcube-ps-join-crash": (29_828, 1658),
    "vcube-ps-join-suspicion": (43_452, 571),
    "vcube-ps-faithful-rejoin": (30_993, 44),
    "gossip-suspicion": (7387, 302),
    "logs-loss": (27_173, 58),
    "gossip": (97_153, 4803),
    "logs-three": (178_608, 3322),
    "tno": (7984, 498),
    "tno-crash": (22_175, 671),
    "tno-swap": (4511, 576),
    "tno-rejoin": (14_538, 305),
    "tno-hasty": (13_612, 1248),
    "locamu-crash": (7690, 450),
    "locamu-suspicion": (41_516, 1443),
}
#: Models that were not exhausted: no promise is broken among so many states, with ends among them.
BOUNDED = {
    "gossip-join": 100_000,
    "gossip-join-suspicions": 100_000,
    "tno-replicas": 100_000,
    "locamu-three": 60_000,
    "locamu-join": 60_000,
}


@pytest.mark.parametrize("name", SMALL)
def test_no_schedule_breaks_a_promise(name: str) -> None:
    found = explore(find_model(name))
    assert found.end == "exhausted", found.offences
    assert (found.states, found.quiet) == SMALL[name]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LARGE)
def test_no_schedule_of_a_larger_model_breaks_a_promise(name: str) -> None:
    found = explore(find_model(name))
    assert found.end == "exhausted", found.offences
    assert (found.states, found.quiet) == LARGE[name]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", BOUNDED)
def test_the_first_states_of_a_model_break_no_promise(name: str) -> None:
    found = explore(find_model(name), states_max=BOUNDED[name], depth_first=True)
    assert found.end == "states", found.offences
    assert found.quiet > 0


def test_every_model_is_counted() -> None:
    assert {*SMALL, *LARGE, *BOUNDED} == set(MODELS)


# -- errors ----------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """An error, the model that shows it, a rule that is broken then, and the number of states at which it is found."""

    error: Any
    model: str
    rule: str
    states: int


def vcube_ps_with(error: type[Process], model: Model, patch: pytest.MonkeyPatch) -> Model:
    name = "FaithfulVCubePs" if issubclass(error, FaithfulVCubePs) else "VCubePs"
    patch.setattr(vcube_options, name, error)
    return model


def gossip_with(change: Callable[[Process], None], model: Model, patch: pytest.MonkeyPatch) -> Model:
    def make(node: int) -> Process:
        process = model.make(node)
        change(process)
        return process

    return msgspec.structs.replace(model, make=make)


def logs_with(error: type, model: Model, patch: pytest.MonkeyPatch) -> Model:
    part = "make_reader" if issubclass(error, logs.Reader) else "make_writer"
    return msgspec.structs.replace(model, make=logs.model(model.summary, model.script, **{part: error}).make)


def locamu_with(error: type[Any], model: Model, patch: pytest.MonkeyPatch) -> Model:
    return msgspec.structs.replace(model, make=locamu_errors.mutants(error, line(3), model.founders, 1))


def tno_with(error: type[Any], model: Model, patch: pytest.MonkeyPatch) -> Model:
    """The ordering modules of all nodes get this clock."""
    defaults = {**(tno.OrderingModule.__init__.__kwdefaults__ or {}), "make_clock": error}
    patch.setattr(tno.OrderingModule.__init__, "__kwdefaults__", defaults)
    return model


PUT_BACK = {"tno": tno_with, "vcube-ps": vcube_ps_with, "gossip": gossip_with, "logs": logs_with, "locamu": locamu_with}

ERRORS = [
    Found(ours.NobodyTakesOver, "vcube-ps-loss", "agreement", 143),
    Found(ours.NeverAsks, "vcube-ps-loss", "complete", 61),
    Found(ours.DeliversAgain, "vcube-ps-recover", "exactly-once", 2096),
    Found(ours.ReusesNumbers, "vcube-ps-publisher-recovers", "no-invention", 2586),
    Found(ours.PassesNothingOn, "vcube-ps-topics", "causal", 94),
    Found(ours.CoversAcrossTopics, "vcube-ps-topics", "causal", 98),
    Found(printed.WaitsForNobodyUnheard, "vcube-ps-faithful-rejoin", "causal", 191),
    Found(printed.WaitsForAll, "vcube-ps-faithful-join", "blocked", 8225),
    Found(ours.BelievesTheDead, "vcube-ps-join-crash", "blocked", 8842),
    Found(gossip_errors.ignores_foreign, "gossip-triangle", "causal", 347),
    Found(gossip_errors.waits_for_foreign, "gossip-triangle", "blocked", 16),
    Found(gossip_errors.never_asks, "gossip-loss", "complete", 34),
    Found(logs_errors._WithoutNumbers, "logs-loss", "fifo", 242),
    Found(logs_errors._SettlesUnseen, "logs", "causal", 236),
    Found(logs_errors._Hasty, "logs-two", "causal", 94),
    Found(tno_errors.KnowsNoEpoch, "tno-swap", "total", 72),
    Found(tno_errors.ResetsTheClock, "tno-join", "total", 1586),
    Found(tno_errors.SeesOnlyItsOwn, "tno-rejoin", "total", 4016),
    Found(locamu_errors.Printed, "locamu", "complete", 123),
    Found(locamu_errors.CountsItself, "locamu", "blocked", 123),
    Found(locamu_errors.NotesFirst, "locamu", "complete", 270),
    Found(locamu_errors.WaitsForItself, "locamu", "blocked", 1348),
    Found(locamu_errors.ForgetsUnstable, "locamu-crash", "complete", 240),
    Found(locamu_errors.NeverLooksAgain, "locamu-crash", "complete", 242),
    Found(locamu_errors.BaseGraphOnly, "locamu-crash", "complete", 237),
]


@pytest.mark.parametrize("found", ERRORS, ids=lambda found: found.error.__name__)
def test_an_error_put_back_is_found(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    put_back = next(put for name, put in PUT_BACK.items() if found.model.startswith(name))
    shown = explore(put_back(found.error, find_model(found.model), monkeypatch))
    assert found.rule in shown.offences
    assert shown.states == found.states
