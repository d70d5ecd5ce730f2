"""docs/papers.md covers the papers and the registry, and its verdicts fit the values."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("generate_papers")


def test_every_table_and_figure_is_listed_with_a_verdict_that_fits_the_values(page: ModuleType) -> None:
    assert list(page.problems()) == []


def _with(page: ModuleType, monkeypatch: pytest.MonkeyPatch, which: str, **change: object) -> list[str]:
    """What is found after a change to one item of papers.toml."""
    changed = [item._replace(**change) if item.number == which else item for item in page.items()]
    monkeypatch.setattr(page, "items", lambda: changed)
    return list(page.problems())


def test_an_experiment_that_is_not_registered_is_found(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _with(page, monkeypatch, "Table 5.1", experiment="thesis-table-9")
    assert "papers.toml leaves out thesis-table-5.1" in found
    assert "thesis Table 5.1: no experiment thesis-table-9" in found


def test_a_figure_that_is_left_out_is_found(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "kim_ahn lacks Figure 5, Figure 6" in _with(page, monkeypatch, "Figures 1 to 6", number="Figures 1 to 4")


def test_a_verdict_that_the_values_contradict_is_found(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "thesis Table 4.1: met, and a value differs" in _with(page, monkeypatch, "Table 4.1", verdict="met")


def test_a_value_that_was_not_run_needs_a_reason(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _with(page, monkeypatch, "Figure 5.11", not_run="")
    assert any(problem.startswith("thesis Figure 5.11: no value of ours") for problem in found)
