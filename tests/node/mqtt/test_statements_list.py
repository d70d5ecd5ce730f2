"""The lists of normative statements (`statements_5.txt`, `statements_311.txt`) in step with tests, code and docs."""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CLASSES = ("tested", "client", "absent", "inside")
#: By version: statements of each chapter in appendix B of the standard.
CHAPTERS = {
    "5": {1: 5, 2: 7, 3: 175, 4: 60, 6: 4},
    "3.1.1": {1: 3, 2: 9, 3: 95, 4: 26, 6: 4, 7: 4},
}


class Statement(NamedTuple):
    number: str
    asks: str
    kind: str
    #: The tests, or the reason why there is none.
    where: str


def statements(version: str) -> list[Statement]:
    lines = (HERE / f"statements_{version.replace('.', '')}.txt").read_text().splitlines()
    return [Statement(*line.split(" | ")) for line in lines if not line.startswith("#")]


def file_of(name: str) -> Path:
    """The file that a list means by its short name."""
    places = (HERE / f"test_statements_{name}.py", HERE / f"test_{name}.py", ROOT / f"tests/wire/mqtt/test_{name}.py")
    return next(path for path in places if path.exists())


@pytest.mark.parametrize("version", CHAPTERS)
def test_every_statement_is_in_the_list(version: str) -> None:
    found = statements(version)
    assert len({one.number for one in found}) == len(found)
    assert Counter(int(one.number.split(".")[0]) for one in found) == CHAPTERS[version]
    assert {one.kind for one in found} <= set(CLASSES)
    assert all(one.where for one in found)


@pytest.mark.parametrize("version", CHAPTERS)
def test_every_test_of_the_list_exists(version: str) -> None:
    for one in statements(version):
        if one.kind == "tested":
            for name in one.where.split():
                module, test = name.split("::")
                assert re.search(rf"^(async )?def {test}\(", file_of(module).read_text(), re.M), (one.number, name)


def test_every_citation_is_of_a_statement() -> None:
    """In the code, the tests and the page; a number of either version."""
    known = {one.number for version in CHAPTERS for one in statements(version)}
    files = [ROOT / "docs/mqtt.md", *HERE.glob("*.py"), *ROOT.glob("tests/wire/mqtt/*.py")]
    files += [*ROOT.glob("src/antecede/wire/mqtt/*.py"), *ROOT.glob("src/antecede/node/mqtt/*.py")]
    wrong = [(path.name, cited) for path in files for cited in re.findall(r"\[MQTT-(\d[^\]]*)\]", path.read_text())]
    assert not [one for one in wrong if one[1] not in known]


@pytest.mark.parametrize("version", CHAPTERS)
def test_the_page_has_the_counts(version: str) -> None:
    counts = Counter(one.kind for one in statements(version))
    row = " | ".join(["", version, str(counts.total()), *[str(counts[kind]) for kind in CLASSES], ""]).strip()
    assert row in (ROOT / "docs/mqtt.md").read_text(), row
