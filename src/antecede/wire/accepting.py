"""Listens on a port and accepts connections, within the process's limit of file descriptors.

asyncio's own server accepts as many connections at a turn as its backlog allows, before any of them can be refused. At
the limit of descriptors it then logs every failure with a traceback, and tries again: a core and a megabyte of log a
second. This one accepts a few connections a turn and asks for each whether it may stay; one that may not is closed at
once. At the limit it pauses, and logs that once.
"""

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
from collections.abc import Callable
from typing import Final

log = logging.getLogger("antecede.wire")

#: Connections accepted at a turn of the event loop, so that others get theirs.
_ACCEPTED_PER_TURN: Final = 64
#: Connections that the kernel keeps until they are accepted.
_BACKLOG: Final = 1024
#: How long to accept nothing after descriptors or memory ran out.
_PAUSE_S: Final = 1.0
#: Descriptors kept for the journal, links to other nodes and logs, at the most; and as a share of the limit.
_RESERVE_MAX: Final = 256
_RESERVE_SHARE: Final = 4

_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

#: Asked with the host of a new connection: the protocol that takes it over, or None to close it.
Accept = Callable[[str], asyncio.Protocol | None]


def connections_within_limit(wanted: int) -> int:
    """How many connections the limit of descriptors allows from now on, up to `wanted`; at least one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    reserve = min(_RESERVE_MAX, limit // _RESERVE_SHARE)
    return max(1, min(wanted, limit - _descriptors_in_use() - reserve))


def raise_descriptor_limit() -> None:
    """Raise the process's limit of descriptors as far as the system allows, as servers do."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Acceptor:
    """Listening sockets. `accept` decides about every connection; `close` stops listening."""

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._sockets: list[socket.socket] = []
        self._taking: set[asyncio.Task[None]] = set()
        self._said = False

    async def start(self, host: str, port: int) -> int:
        """Listen at every address of `host`; return the port. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, number, _, address in dict.fromkeys(found):
                sock = socket.socket(family, kind, number)
                self._sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind(address)
                sock.setblocking(False)
                sock.listen(_BACKLOG)
        except OSError:
            self.close()
            raise
        for sock in self._sockets:
            loop.add_reader(sock, self._ready, sock)
        listening: int = self._sockets[0].getsockname()[1]
        return listening

    def close(self) -> None:
        """Listen no more. Connections that are open stay."""
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()

    def _ready(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                connection, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause(sock, error)
                return
            protocol = self._accept(str(address[0]))
            if protocol is None:
                connection.close()
                continue
            connection.setblocking(False)
            task = loop.create_task(self._take(protocol, connection))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    async def _take(self, protocol: asyncio.Protocol, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)
        except OSError as error:
            connection.close()
            protocol.connection_lost(error)

    def _pause(self, sock: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        if not self._said:
            self._said = True
            text = "no connection can be accepted for now: %s; raise the limit (ulimit -n); logged once"
            log.error(text, error.strerror)
        loop.remove_reader(sock)
        loop.call_later(_PAUSE_S, self._resume, sock)

    def _resume(self, sock: socket.socket) -> None:
        if sock in self._sockets:
            asyncio.get_running_loop().add_reader(sock, self._ready, sock)


def _descriptors_in_use() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:  # a system without it: a process has a few dozen
        return 64
