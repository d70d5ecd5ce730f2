"""The documentation says what the code does: the reference is generated, links lead somewhere, first blocks run."""

import asyncio
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import antecede
from tests.client.running import awaited

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "bench" / "results").glob("*.md")),
]


@pytest.mark.parametrize("page", ["reference.md", "wire-and-journal.md", "limits.md", "api.md", "papers.md"])
def test_generated_pages_are_what_the_code_says(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    written = importlib.import_module("generate").PAGES[page]()
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == written, "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|txt|csv|md|sh))`", page.read_text(encoding="utf-8"))
    roots = (ROOT, ROOT / "src" / "antecede", ROOT / "docs")
    missing = [name for name in named if not any((root / name).exists() for root in roots)]
    assert not missing, f"{page.name} names {missing}"


def test_readme_names_every_package() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for package in sorted(path.parent.name for path in (ROOT / "src" / "antecede").glob("*/__init__.py")):
        assert f"      {package}/" in text, f"README's layout leaves out {package}"


@pytest.mark.parametrize("page", ["README.md", "docs/live.md"])
@awaited
async def test_the_first_program_answers_questions(page: str) -> None:
    (program, *_) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    body, start = re.split(r"asyncio\.run\((\w+)\(\)\)", program)[:2]
    async with antecede.Node(port=0) as node, antecede.connect(node.url) as bus, bus.subscribe("#") as feed:
        names: dict[str, Any] = {}
        exec(body.replace("antecede://127.0.0.1:7400", node.url), names)
        running = asyncio.create_task(names[start]())
        try:
            async with asyncio.timeout(60):
                while (await bus.status())["feeds"] < 2:
                    await asyncio.sleep(0.05)
                await bus.publish("questions/1", b"why?")
                read = [(message.topic, message.payload) for message in [await anext(feed), await anext(feed)]]
                await bus.publish("done", b"")  # and it does not answer itself
                read.append(((await anext(feed)).topic, b""))
        finally:
            running.cancel()
    assert read == [("questions/1", b"why?"), ("answers/python", b"re: why?"), ("done", b"")]
