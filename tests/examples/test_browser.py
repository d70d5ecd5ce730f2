"""The pages for a browser, in a real one: the chat over MQTT, each tab at another node, and what flows by topic."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import antecede
from antecede import Node
from tests.client.running import awaited
from tests.node.clusters import cluster
from tests.node.http_client import ask, port_of
from tests.report.browser import Browser

PAGES = Path(__file__).parents[2] / "examples" / "browser"
ITEMS = (
    "[...document.querySelectorAll('#messages li')].map(item => [item.className, item.firstChild.textContent,"
    " item.childNodes[1].textContent])"
)
STATE = "document.getElementById('state').textContent"


class Tabs:
    """The tabs of a browser, from a coroutine: the nodes are in this process."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def _evaluate(self, tab: int, expression: str) -> Any:
        self._browser.use(tab)
        return self._browser.evaluate(expression)

    async def open(self, tab: int, address: str) -> None:
        def do() -> None:
            self._browser.use(tab)
            self._browser.open(address, width=700)

        await asyncio.to_thread(do)

    async def close(self) -> None:
        """Leave the pages, which would dial their nodes for ever."""
        for tab in range(3):
            await self.open(tab, "about:blank")

    async def evaluate(self, tab: int, expression: str) -> Any:
        return await asyncio.to_thread(self._evaluate, tab, expression)

    async def until(self, tab: int, expression: str, wanted: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + 60
        while not wanted(value := await self.evaluate(tab, expression)):
            assert time.monotonic() < deadline, f"in tab {tab} {expression} stayed {value!r}"
            await asyncio.sleep(0.05)
        return value

    async def submit(self, tab: int, form: str, **values: str) -> None:
        """Fill in fields by their ids, and send a form."""
        for name, value in values.items():
            await self.evaluate(tab, f"document.getElementById({json.dumps(name)}).value = {json.dumps(value)}")
        await self.evaluate(tab, f"document.querySelector({json.dumps(form)}).requestSubmit()")


@awaited
async def test_three_tabs_at_three_nodes_show_answers_after_questions(browser: Browser, pictures: Path) -> None:
    tabs = Tabs(browser)
    async with cluster(3, http_port=0, ws_port=0, http_files=PAGES) as nodes:
        for tab, (node, name) in enumerate(zip(nodes, ("ann", "bob", "cleo"), strict=True)):
            await tabs.open(tab, f"http://127.0.0.1:{port_of(node)}/app/")
            await tabs.submit(tab, "#join", name=name)
            await tabs.until(tab, STATE, lambda state: state.startswith("connected"))
        for number in range(5):
            await tabs.submit(0, "#ask", question=f"why {number}?")
            await tabs.until(1, "document.querySelectorAll('li.question').length", (number + 1).__eq__)
            fill = f"document.querySelector('li:last-child input').value = 'because {number}'"
            await tabs.evaluate(1, fill)
            await tabs.evaluate(1, "document.querySelector('li:last-child form').requestSubmit()")
            await tabs.until(1, "document.querySelectorAll('li.answer').length", (number + 1).__eq__)
        wanted = [
            item
            for number in range(5)
            for item in (["question", "ann", f"why {number}?"], ["answer", "bob", f"because {number}"])
        ]
        for tab in range(3):
            assert await tabs.until(tab, ITEMS, lambda items: len(items) == 10) == wanted
        assert browser.complaints == []
        await asyncio.to_thread(browser.screenshot, pictures / "chat.png", whole=True)
        await tabs.close()


@awaited
async def test_what_flows_by_topic(browser: Browser, pictures: Path) -> None:
    tabs = Tabs(browser)
    async with Node(port=0, http_port=0) as node, node.connect() as bus:
        await tabs.open(0, f"http://127.0.0.1:{port_of(node)}/live")
        await tabs.until(0, STATE, lambda state: state == "reading #")
        await ask(node, "POST", "/topics/rooms/1", b'{"degrees": 21}', {"Content-Type": "application/json"})
        await bus.publish("<script>x</script>", b"<b>bold</b>")
        for _ in range(3):
            await bus.publish("rooms/2", b"on")
        cells = (
            "[...document.querySelectorAll('#topics tr')].slice(1).map(row => [...row.children].map("
            "cell => cell.textContent))"
        )
        rows = await tabs.until(0, cells, lambda rows: len(rows) == 3 and rows[2][1] == "3")
        assert [(name, count, last) for name, count, _, last in rows] == [
            ("<script>x</script>", "1", "<b>bold</b>"),
            ("rooms/1", "1", '{"degrees":21}'),
            ("rooms/2", "3", "on"),
        ]
        await asyncio.to_thread(browser.screenshot, pictures / "live.png", whole=True)
        # Other filters; and one that the node refuses.
        await tabs.submit(0, "#ask", filters="rooms/+ doors/#")
        await tabs.until(0, STATE, lambda state: state == "reading rooms/+ doors/#")
        await bus.publish("doors/1", b"\xff")
        assert (await tabs.until(0, cells, lambda rows: len(rows) == 1))[0][0] == "doors/1"
        assert browser.complaints == []
        await tabs.submit(0, "#ask", filters="a#")
        await tabs.until(0, STATE, lambda state: "refused" in state)


@awaited
async def test_the_page_goes_on_after_a_restart_of_the_node(browser: Browser, tmp_path: Path) -> None:
    """EventSource sends its last id by itself: what was published while the page was away is shown."""
    tabs = Tabs(browser)
    node = Node(port=0, http_port=0, directory=tmp_path / "n0")
    await node.start()
    port = port_of(node)
    await tabs.open(0, f"http://127.0.0.1:{port}/live")
    await tabs.until(0, STATE, lambda state: state == "reading #")
    await ask(node, "POST", "/topics/t", b"before")
    texts = "[...document.querySelectorAll('#messages td:nth-child(3)')].map(cell => cell.textContent)"
    await tabs.until(0, texts, lambda texts: texts == ["before"])
    await node.stop()
    async with antecede.Node(port=0, directory=tmp_path / "n0") as away, away.connect() as bus:
        await bus.publish("t", b"meanwhile")
    async with Node(port=0, http_port=port, directory=tmp_path / "n0"):
        await tabs.until(0, texts, lambda texts: texts == ["meanwhile", "before"])
