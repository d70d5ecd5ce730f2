"""`antecede explore`: what it prints, its exit code, and how a violation is replayed."""

import json

import pytest
from typer.testing import CliRunner

from antecede.cli.commands import make_app
from antecede.core import UsageError
from antecede.protocols.vcube_ps import options as vcube_options
from tests.protocols.vcube_ps.mutations_pipelined import NeverAsks


def explore(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(make_app("explore"), ["explore", *words], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_without_a_name_it_lists_the_models() -> None:
    code, text = explore()
    assert code == 0
    assert "vcube-ps-loss" in text
    assert "1 crash, 1 loss" in text


def test_it_says_that_every_schedule_was_explored() -> None:
    code, text = explore("vcube-ps-loss")
    assert code == 0
    assert "494 states, 1,001 steps between them, schedules of up to 11 steps, 62 quiet states" in text
    assert "every schedule was explored: no promise is broken" in text


def test_it_says_where_it_was_bounded() -> None:
    code, text = explore("vcube-ps-loss", "--states", "100")
    assert code == 0
    assert "bounded in states at 10" in text
    assert "not exhausted" in text


def test_as_json() -> None:
    code, text = explore("vcube-ps-topics", "--json")
    assert code == 0
    assert json.loads(text)["end"] == "exhausted"


def test_a_violation_is_told_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vcube_options, "VCubePs", NeverAsks)
    code, text = explore("vcube-ps-loss")
    assert code == 1
    assert "a promise is broken, found at 61 states" in text
    command = next(line for line in text.splitlines() if "--schedule" in line).split()
    code, replayed = explore(*command[2:])
    assert code == 1
    assert "node 2 does not receive pub t/0.1 from node 0" in replayed
    assert "complete: node 2 never delivered t/0.1" in replayed


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    done = CliRunner().invoke(make_app("explore"), ["explore", "nothing"])
    assert done.exit_code != 0
    assert "vcube-ps" in str(done.exception)


@pytest.mark.parametrize(("schedule", "said"), [("abc", "is not a list of numbers"), ("0,99", "there are 7 moves")])
def test_a_schedule_that_cannot_be_replayed_is_refused(schedule: str, said: str) -> None:
    done = CliRunner().invoke(make_app("explore"), ["explore", "vcube-ps-loss", "--schedule", schedule])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)
