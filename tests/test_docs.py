"""The documentation says what the code does: the reference is generated, links lead somewhere, README blocks run."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_reference_is_what_the_registries_say() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == generate.render(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_names_every_package() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for package in sorted(path.parent.name for path in (ROOT / "src" / "antecede").glob("*/__init__.py")):
        assert f"      {package}/" in text, f"README's layout leaves out {package}"
