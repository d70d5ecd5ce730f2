"""docs/adding-a-protocol.md and docs/adding-a-transport.md, followed step by step: their blocks are what runs here."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from antecede.protocols.live_registry import LIVE
from antecede.protocols.registry import PROTOCOLS
from antecede.testing import SCENARIOS, fair_pairs
from antecede.wire.transports import TRANSPORTS

#: The protocols that play on the new transport.
PLAYED = ("causal-aggregation", "vcube-ps")
DOCS = Path(__file__).parents[1] / "docs"


def follow(page: str, base: Path) -> dict[str, Any]:
    """Write the blocks that begin with a file's name below `base`, run the others in order; what they defined."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL):
        named = re.match(r"# (\w+/\w+\.py)\n", block)
        if named is not None:
            path = base / named.group(1)
            path.parent.mkdir(exist_ok=True)
            path.write_text(block, encoding="utf-8")
        else:
            exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A directory on the path. What the blocks registered and imported is gone afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    tables: list[dict[str, Any]] = [PROTOCOLS, LIVE, TRANSPORTS]
    before = [dict(table) for table in tables]
    modules = set(sys.modules)
    yield tmp_path
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in ("stubborn", "unixwire"):
            del sys.modules[name]


def test_adding_a_protocol(base: Path) -> None:
    names = follow("adding-a-protocol.md", base)
    assert names["report"].messages > 100
    assert set(names["played"]) == set(SCENARIOS)
    assert names["heard"] == [b"hello", b"hello", b"again"]


def test_adding_a_transport(base: Path) -> None:
    names = follow("adding-a-transport.md", base)
    fair = {(scenario.name, subject.name) for scenario, subject in fair_pairs()}
    assert set(names["played"]) == {(scenario, subject) for scenario, subject in fair if subject in PLAYED}
    assert names["heard"] == b"hello"
    assert names["packets"] > 0
