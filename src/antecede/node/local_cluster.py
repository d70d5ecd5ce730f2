"""A cluster of processes on this machine: for trials, demonstrations, and tests that kill nodes.

Each node has a directory (journal, settings, log) and a port of its own. `kill` sends SIGKILL; `start` starts the node
again on its directory. Every process that was started is stopped at the end, by its process id.
"""

import asyncio
import contextlib
import json
import random
import signal
import socket
import sys
from collections import deque
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from antecede.core import UsageError
from antecede.core.errors import UnreachableError
from antecede.private_files import create_private, make_private_directory, write_private

#: Processes on one machine.
NODES_MAX: Final = 256

_START_S: Final = 60.0
_STOP_S: Final = 15.0

#: Free ports are drawn from these. The system gives ports above them to outgoing connections, and one of those could
#: hold the port of a node that is down for a moment.
FREE_PORTS: Final = range(20_000, 32_768)

#: UDP sockets on the ports that were drawn last. Another process must not draw such a port while its node restarts, and
#: a node listens on TCP alone, so a UDP socket reserves it. The oldest are given back: a process may start many nodes.
_reserved: Final[deque[socket.socket]] = deque()
_RESERVED_MAX: Final = 128

_Port: TypeAlias = Annotated[int, msgspec.Meta(ge=1, lt=1 << 16)]


class LocalCluster:
    """`async with LocalCluster(directory, nodes=8) as cluster`."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int,
        cluster: str = "antecede",
        memory: bool = False,
        first_port: int = 0,
        http: bool = False,
        **settings: Any,
    ) -> None:
        """`settings` as in `NodeConfig`, the same for all nodes. `memory`: nodes have no journal. `first_port`: the
        port of the first node, the others count on from it; a port that is taken is replaced by a free one. 0: any free
        ports. `http`: the first node serves its page.
        """
        if not 1 <= nodes <= NODES_MAX:
            raise UsageError("nodes", nodes, "is out of range", f"use 1 … {NODES_MAX}")
        if not 0 <= first_port <= (1 << 16) - nodes:
            raise UsageError("port", first_port, "is out of range", f"use 0 (any that is free) … {(1 << 16) - nodes}")
        self.directory = directory
        self.cluster = cluster
        self.processes: dict[int, asyncio.subprocess.Process] = {}
        ports = self._ports(nodes, first_port)
        self.ports = ports[:nodes]
        #: The slots of LoCaMu are the nodes of its graph: as many as there ever were in this directory.
        graph = settings.get("protocol") == "locamu"
        self._slots = 1 << max(1, (len(ports) - 1).bit_length()) if graph else NODES_MAX
        self._settings = settings
        self._http_port = free_ports([0])[0] if http else None
        self._memory = memory
        self._stopped = False

    @property
    def count(self) -> int:
        return len(self.ports)

    def url(self, node: int) -> str:
        return f"antecede://127.0.0.1:{self.ports[node]}"

    @property
    def page(self) -> str | None:
        """The URL of the first node's page, if it serves one."""
        return None if self._http_port is None else f"http://127.0.0.1:{self._http_port}/"

    def journal(self, node: int) -> Path:
        return self.directory / f"n{node}" / "journal.db"

    def log(self, node: int) -> Path:
        return self.directory / f"n{node}" / "log"

    async def __aenter__(self) -> "LocalCluster":
        try:
            # The founder first: the others join through it. With several managers it needs them to be ready.
            alone = self._settings.get("managers", 1) == 1
            await self.start(0, wait=alone)
            await asyncio.gather(*[self.start(node) for node in range(1, self.count)])
            if not alone:
                await self.ready(0)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def start(self, node: int, *, wait: bool = True) -> None:
        """Start `node`, or start it again. Returns when it takes clients, or at once if not `wait`."""
        if self._stopped:
            raise UsageError("cluster", str(self.directory), "was stopped", "make another one")
        home = self.directory / f"n{node}"
        make_private_directory(home)
        config = home / "node.toml"
        settings: dict[str, Any] = {
            "name": f"n{node}",
            "cluster": self.cluster,
            "port": self.ports[node],
            "directory": None if self._memory else ".",
            "slot": node,
            "seeds": [f"127.0.0.1:{port}" for port in self.ports],
            "http_port": self._http_port if node == 0 else None,
            "slots": self._slots,
        }
        write_private(config, _toml(settings | self._settings).encode())
        create_private(self.log(node))
        with self.log(node).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "antecede.node",
                str(config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # so that Ctrl-C reaches only us, and `stop` ends the nodes in order
            )
        self.processes[node] = process
        if wait:
            await self.ready(node)

    async def ready(self, node: int) -> None:
        """Return when the process of `node` takes clients. Raises `UnreachableError` if it ends before that."""
        process = self.processes[node]
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_START_S):
                line = await process.stdout.readline()
                if not line:
                    await process.wait()
        except TimeoutError:
            line = b""
        if not line.startswith(b"ready"):
            tail = self.log(node).read_text(errors="replace").strip().splitlines()[-1:]
            raise UnreachableError(f"node {node}", f"it did not start: {' '.join(tail) or 'see its log'}")

    def running(self, node: int) -> bool:
        process = self.processes.get(node)
        return process is not None and process.returncode is None

    async def kill(self, node: int) -> None:
        """Send SIGKILL: the process says nothing and writes nothing more."""
        process = self.processes[node]
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def stop(self) -> None:
        """Ask all nodes to stop, and kill those that do not. No node can be started after that."""
        self._stopped = True
        for process in self.processes.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
        for node, process in self.processes.items():
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                await self.kill(node)

    def _ports(self, count: int, first: int) -> list[int]:
        """The ports of an earlier run in this directory, so that nodes find each other again; else free ones."""
        remembered = self.directory / "ports.json"
        ports: list[int] = []
        try:
            if remembered.exists():
                ports = msgspec.json.decode(remembered.read_bytes(), type=list[_Port])
            ports += free_ports([first + node if first else 0 for node in range(len(ports), count)])
            make_private_directory(self.directory)
            write_private(remembered, json.dumps(ports).encode())
        except OSError as error:
            problem = f"cannot be written ({error.strerror})"
            raise UsageError("directory", str(self.directory), problem, "choose another directory") from None
        except (msgspec.DecodeError, RecursionError) as error:
            problem = f"is not a list of ports ({error})"
            raise UsageError("file", str(remembered), problem, "restore it, or remove it") from None
        return ports


def free_ports(wanted: list[int]) -> list[int]:
    """The wanted ports, with a free one instead of 0 and instead of each that is taken."""
    drawn = filter(_reserve, random.sample(FREE_PORTS, len(FREE_PORTS)))  # each once
    sockets = [socket.socket() for _ in wanted]
    try:
        for one, port in zip(sockets, wanted, strict=True):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for candidate in chain([port] if port else (), drawn):
                with contextlib.suppress(OSError):
                    one.bind(("127.0.0.1", candidate))
                    break
            else:
                problem = f"is taken, and so is every one from {FREE_PORTS[0]} to {FREE_PORTS[-1]}"
                raise UsageError("port", port, problem, "end other programs that listen on 127.0.0.1")
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _reserve(port: int) -> bool:
    """Reserve a port for this process. False: it is reserved already."""
    one = socket.socket(type=socket.SOCK_DGRAM)
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.close()
        return False
    _reserved.append(one)
    if len(_reserved) > _RESERVED_MAX:
        _reserved.popleft().close()
    return True


def _toml(settings: dict[str, Any]) -> str:
    """Settings as TOML: strings, numbers, booleans and lists of them are written as in JSON."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items() if value is not None)
