"""`antecede manager`: a manager of topics for total order over a broker."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def manager_command(
    number: Annotated[int, typer.Option(help="This manager's number, 0 … managers − 1; nobody else's.")],
    managers: Annotated[int, typer.Option(help="How many managers there are, the same for all participants.")] = 1,
    replicas: Annotated[int, typer.Option(help="How many of them know each topic; fewer than half may die.")] = 1,
    nats: Annotated[str, typer.Option(help="The NATS server.")] = "nats://127.0.0.1:4222",
    system: Annotated[str, typer.Option(help="Name of the system; several may share a server.")] = "antecede",
    journal: Annotated[
        Path | None,
        typer.Option(help="A file for what this manager knows. With it, one that was killed may be started again."),
    ] = None,
    power: Annotated[bool, typer.Option("--power", help="The journal survives a loss of power too; slower.")] = False,
) -> None:
    """Manage topics for programs that read them in one order over a NATS server (`antecede.gateway.OrderedBus`).

    Run one for each number and leave them running; Ctrl-C stops. Without a journal what a manager knows is in its
    memory: do not start one again under the number of one that ended while the others, or programs, go on.

    Example, three of which any one may die:

        antecede manager --number 0 --managers 3 --replicas 3 --journal manager0.db
    """
    asyncio.run(_manage(number, managers, replicas, nats, system, journal, power))


async def _manage(
    number: int, managers: int, replicas: int, nats: str, system: str, journal: Path | None, power: bool
) -> None:
    from antecede.core import UsageError  # noqa: PLC0415
    from antecede.gateway import NatsService, OrderedBus  # noqa: PLC0415

    if number >= managers:
        raise UsageError("--number", number, f"there are {managers} managers", f"choose 0 … {managers - 1}")
    asked = asyncio.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(kind, asked.set)
    bus = OrderedBus(
        NatsService(nats),
        number=number,
        managers=managers,
        replicas=replicas,
        system=system,
        journal=journal,
        durability="power" if power else "process",
    )
    async with bus:
        Console().print(f"manager {number} of {managers} at {nats}", highlight=False)
        trouble = asyncio.ensure_future(anext(bus))
        stop = asyncio.ensure_future(asked.wait())
        await asyncio.wait([trouble, stop], return_when=asyncio.FIRST_COMPLETED)
        if trouble.done():
            trouble.result()  # it takes no topic: all that can come is an error
        trouble.cancel()
