"""Drives a real headless Chromium through its debugging pipe: no port, no driver program, no library.

The protocol is JSON messages ended by a zero byte, on file descriptors 3 (to the browser) and 4 (from it).
"""

import base64
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)

#: A loaded machine needs its time; a browser that hangs must not hang the tests.
TIMEOUT_S = 60

#: Puts the pipe's ends where the browser looks for them, and becomes the browser.
_LAUNCH = """
import fcntl, os, sys
there, back = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 5) for number in sys.argv[1:3])
os.dup2(there, 3)
os.dup2(back, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One browser process with one page in it, or several, one in each tab."""

    def __init__(self, chromium: str, profile: Path) -> None:
        self._number = 0
        self._buffer = b""
        #: What the page said on its console or raised, and every address it asked for.
        self.complaints: list[str] = []
        self.requests: list[str] = []
        there, self._out = os.pipe()
        self._in, back = os.pipe()
        launcher = [sys.executable, "-c", _LAUNCH, str(there), str(back)]
        self._process = subprocess.Popen(
            [*launcher, chromium, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(there, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        self._session: str | None = None
        self._tabs: list[str] = []
        self.use(0)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)  # the browser ends when nobody talks to it any more
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def use(self, tab: int) -> None:
        """Let what follows be about this tab, which is made if it is the next one. The first is 0."""
        if tab < len(self._tabs):
            self._session = self._tabs[tab]
            return
        assert tab == len(self._tabs)
        self._session = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._tabs.append(self._session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(
        self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = ""
    ) -> None:
        """Show a file, or an address, at a size, as a reader who prefers dark or light, on screen or on paper."""
        self.complaints.clear()
        self.requests.clear()
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        preference = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=media, features=[preference])
        self._call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        deadline = time.monotonic() + TIMEOUT_S
        while self.evaluate("document.readyState") != "complete":
            assert time.monotonic() < deadline, f"{page} did not finish loading"
            time.sleep(0.02)

    def take_any_certificate(self) -> None:
        """As a reader who clicks the warning away."""
        self._call("Security.setIgnoreCertificateErrors", ignore=True)

    def evaluate(self, expression: str) -> Any:
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, file: Path, selector: str = "", *, whole: bool = False) -> bytes:
        """A PNG of the window, of one element, or of the whole page; also written to `file`."""
        options: dict[str, Any] = {"format": "png", "optimizeForSpeed": True}
        if selector:
            where = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
            x, y, width, height = self.evaluate(f"(r => [r.x + scrollX, r.y + scrollY, r.width, r.height])({where})")
            options["clip"] = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        if selector or whole:
            options["captureBeyondViewport"] = True
        if whole:
            width, height = self.evaluate("[document.documentElement.clientWidth, document.body.scrollHeight]")
            options["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        picture = base64.b64decode(self._call("Page.captureScreenshot", **options)["data"])
        file.write_bytes(picture)
        return picture

    def pdf(self, file: Path) -> bytes:
        printed = base64.b64decode(self._call("Page.printToPDF", printBackground=True)["data"])
        file.write_bytes(printed)
        return printed

    # -- the pipe -----------------------------------------------------------------------------------------------------

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(method)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self, waiting_for: str) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the browser did not answer {waiting_for} within {TIMEOUT_S} s"
            piece = os.read(self._in, 1 << 20)
            assert piece, f"the browser ended while it was asked for {waiting_for}"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                self.complaints.append(f"console: {params['args']}")
            case "Runtime.exceptionThrown":
                self.complaints.append(f"exception: {params['exceptionDetails']}")
            case "Log.entryAdded":
                self.complaints.append(f"log: {params['entry']['text']}")
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
