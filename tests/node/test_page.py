"""A node's page in a real browser, while nodes come and go."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import antecede
from antecede.node.local_cluster import LocalCluster
from antecede.wire.security import init_certificates, new_token
from tests.client.running import awaited
from tests.report.browser import Browser

STATES = "[...document.querySelectorAll('#members td:nth-child(4)')].map(cell => cell.textContent)"
DELIVERED = "Number(document.querySelector('.tile b')?.textContent.replaceAll(',', '') ?? -1)"


async def shown(browser: Browser, expression: str, wanted: Callable[[object], bool]) -> None:
    deadline = time.monotonic() + 60
    while not wanted(value := browser.evaluate(expression)):
        assert time.monotonic() < deadline, f"{expression} stayed {value!r}"
        await asyncio.sleep(0.1)


@awaited
async def test_the_page_follows_the_cluster(browser: Browser, pictures: Path, tmp_path: Path) -> None:
    async with LocalCluster(tmp_path, nodes=4, memory=True, http=True) as cluster:
        assert cluster.page is not None
        browser.open(cluster.page, width=1000)
        await shown(browser, STATES, lambda states: states == ["here", "up", "up", "up"])
        assert browser.evaluate("document.querySelectorAll('#cube .edge').length") == 4
        assert browser.evaluate("document.querySelectorAll('#cube .branch').length") == 2  # of node 0: to 1 and 2
        async with antecede.connect(cluster.url(1), name="<script>x</script>") as bus:
            for number in range(50):
                await bus.publish("rooms/1", b"%d" % number)
        await shown(browser, DELIVERED, lambda count: count == 50)
        await shown(browser, "document.querySelectorAll('.rate').length", lambda count: count == 1)
        await cluster.kill(3)
        await shown(browser, STATES, lambda states: states == ["here", "up", "up", "down"])
        assert browser.complaints == []
        assert {address.removeprefix(cluster.page) for address in browser.requests} <= {
            *("", "page.css", "page.js", "status", "favicon.ico")
        }
        browser.screenshot(pictures / "node.png", whole=True)
        await cluster.kill(0)
        await shown(browser, "document.getElementById('trouble').textContent", lambda words: "does not answer" in words)


@awaited
async def test_it_fits_a_narrow_window(browser: Browser) -> None:
    async with antecede.Node(port=0, http_port=0) as node:
        assert node.http is not None
        await asyncio.to_thread(browser.open, f"http://127.0.0.1:{node.http.port}/", width=390)
        scroll = "document.documentElement.scrollWidth"
        deadline = time.monotonic() + 60
        while await asyncio.to_thread(browser.evaluate, "document.querySelectorAll('.tile').length") != 7:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        assert await asyncio.to_thread(browser.evaluate, scroll) == 390


@awaited
async def test_off_loopback_a_browser_asks_for_the_token(browser: Browser, tmp_path: Path) -> None:
    """A name and a password in the address are what a reader types: the browser keeps them for this node."""
    init_certificates(tmp_path / "certs", cluster="antecede")
    tokens = tmp_path / "tokens.json"
    token = new_token(tokens, "reader", status=True)
    settings = {"tls": tmp_path / "certs", "tokens": tokens, "http_port": 0, "http_host": "0.0.0.0"}
    async with antecede.Node(port=0, **settings) as node:  # type: ignore[arg-type]
        assert node.http is not None
        tiles, at = "document.querySelectorAll('.tile').length", f"localhost:{node.http.port}/"
        await asyncio.to_thread(browser.take_any_certificate)
        await asyncio.to_thread(browser.open, f"https://{at}")
        assert await asyncio.to_thread(browser.evaluate, tiles) == 0
        await asyncio.to_thread(browser.open, f"https://any:{token}@{at}")
        await asyncio.to_thread(browser.open, f"https://{at}")
        deadline = time.monotonic() + 60
        while await asyncio.to_thread(browser.evaluate, tiles) != 7:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
