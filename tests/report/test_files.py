"""Nothing is overwritten that is not ours."""

from pathlib import Path

import pytest

from antecede.core import UsageError
from antecede.report import Contents, page, space_time
from antecede.report.files import DIAGRAM_MARK, PAGE_MARK, write_own

from .runs import results, triangle


def test_our_own_earlier_files_are_replaced(tmp_path: Path) -> None:
    for name, content, mark in (
        ("a.html", page(Contents(title="x", lines=results())), PAGE_MARK),
        ("a.svg", space_time(triangle()), DIAGRAM_MARK),
    ):
        write_own(tmp_path / name, content, mark)
        write_own(tmp_path / name, content + "\n", mark)
        assert (tmp_path / name).read_text(encoding="utf-8").endswith("\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.svg"]


@pytest.mark.parametrize("foreign", ["", "<html>mine</html>", "\x00\x01"])
def test_a_foreign_file_is_left_as_it_is(tmp_path: Path, foreign: str) -> None:
    target = tmp_path / "mine.html"
    target.write_text(foreign)
    with pytest.raises(UsageError, match=r"mine\.html.*is not a file antecede wrote"):
        write_own(target, page(Contents(title="x", lines=results())), PAGE_MARK)
    assert target.read_text() == foreign


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        write_own(tmp_path, "x", PAGE_MARK)
    with pytest.raises(UsageError, match="its directory does not exist"):
        write_own(tmp_path / "no" / "a.html", "x", PAGE_MARK)
