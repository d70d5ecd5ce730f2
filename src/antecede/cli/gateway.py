"""`antecede manager`: a manager of topics for total order over a broker."""

import asyncio
import contextlib
import signal
from typing import Annotated

import typer
from rich.console import Console


def manager_command(
    number: Annotated[int, typer.Option(help="This manager's number, 0 … managers − 1; nobody else's.")],
    managers: Annotated[int, typer.Option(help="How many managers there are, the same for all participants.")] = 1,
    replicas: Annotated[int, typer.Option(help="How many of them know each topic; fewer than half may die.")] = 1,
    nats: Annotated[str, typer.Option(help="The NATS server.")] = "nats://127.0.0.1:4222",
    system: Annotated[str, typer.Option(help="Name of the system; several may share a server.")] = "antecede",
) -> None:
    """Manage topics for programs that read them in one order over a NATS server (`antecede.gateway.OrderedBus`).

    Run one for each number and leave them running; Ctrl-C stops. What a manager knows is in its memory: do not start
    one again under the number of one that was killed while the others go on.

    Example, three of which any one may die:

        antecede manager --number 0 --managers 3 --replicas 3
    """
    asyncio.run(_manage(number, managers, replicas, nats, system))


async def _manage(number: int, managers: int, replicas: int, nats: str, system: str) -> None:
    from antecede.core import UsageError  # noqa: PLC0415
    from antecede.gateway import NatsService, OrderedBus  # noqa: PLC0415

    if number >= managers:
        raise UsageError("--number", number, f"there are {managers} managers", f"choose 0 … {managers - 1}")
    asked = asyncio.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(kind, asked.set)
    async with OrderedBus(NatsService(nats), number=number, managers=managers, replicas=replicas, system=system):
        Console().print(f"manager {number} of {managers} at {nats}", highlight=False)
        await asked.wait()
