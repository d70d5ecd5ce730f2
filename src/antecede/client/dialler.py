"""Dials a node for a client, and dials again when the connection breaks."""

import random
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from antecede.core.errors import ConnectionLostError, RefusedError, UnreachableError, UsageError
from antecede.wire.address import join_address, split_address
from antecede.wire.backoff import Backoff, may_pass, redial
from antecede.wire.codec import FRAME_BYTES_MAX, Hello
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import greet
from antecede.wire.requests import ROLE, SPEAKS


class Adopter(Protocol):
    def adopt(self, connection: FrameConnection) -> Owner: ...


class Dialler:
    """Holds the addresses to try, in turn, and the hello that names the client."""

    def __init__(
        self,
        addresses: tuple[tuple[str, int], ...],
        *,
        cluster: str,
        name: str,
        token: str,
        speaks: str = SPEAKS,
        role: str = ROLE,
        bytes_max: int = FRAME_BYTES_MAX,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = 5.0,
        patience_s: float = 30.0,
        clear_token: bool = False,
        dial: Callable[[FrameConnection], Awaitable[object]] | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`patience_s`: for how long a broken connection is dialled again before everything on it fails.

        `speaks`, `role` and `bytes_max`: the records that the client understands, and the longest frame of them.
        """
        self.timeout_s = timeout_s
        self.where = (
            ", ".join(join_address(host, port) for host, port in addresses) if dial is None else f"memory://{name}"
        )
        #: Further nodes of the cluster, as the node we reached tells: host:port each.
        self.others: tuple[str, ...] = ()
        self._addresses = addresses
        self._greet = partial(
            greet,
            hello=Hello(cluster=cluster, speaks=speaks, role=role, name=name, token=token),
            tls=tls,
            timeout_s=timeout_s,
            bytes_max=bytes_max,
            dial=dial,
            clear_token=clear_token,
        )
        self.patience_s = patience_s
        self._on_close = on_close
        self.backoff = Backoff(random.Random(f"{name}/{self.where}"))

    async def dial(self, bus: Adopter) -> None:
        """Reach one of the addresses. Raises the error of the last one."""
        problem: RefusedError | UnreachableError | UsageError | None = None
        known = [address for text in self.others if (address := split_address(text)) not in self._addresses]
        for host, port in (*self._addresses, *known):
            try:
                await self._greet(host, port, adopt=lambda connection, _: bus.adopt(connection))
                return
            except (RefusedError, UnreachableError) as error:
                problem = error
            except UsageError as error:  # its token must not go there; other addresses may do
                problem = problem or error
        assert problem is not None
        raise problem

    async def redial(self, bus: Adopter) -> None:
        """Again, with pauses, as long as patience lasts. Raises `ConnectionLostError`, or a refusal that is final."""
        try:
            await redial(
                lambda: self.dial(bus),
                self.backoff,
                patience_s=self.patience_s,
                retried=(RefusedError, UnreachableError),
            )
        except (RefusedError, UnreachableError) as error:
            if not may_pass(error):
                raise
            raise ConnectionLostError(f"{self.where} was lost and not reached again: {error}") from None

    async def close(self) -> None:
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            await on_close()
