"""`antecede manager`: runs a manager of topics, for total order over a NATS server."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def manager_command(
    number: Annotated[int, typer.Option(help="Number of this manager, 0 … managers − 1, used by no other.")],
    managers: Annotated[int, typer.Option(help="How many managers there are, equal for all participants.")] = 1,
    replicas: Annotated[
        int, typer.Option(help="How many managers keep each topic; fewer than half of them may be down.")
    ] = 1,
    nats: Annotated[str, typer.Option(help="Address of the NATS server.")] = "nats://127.0.0.1:4222",
    system: Annotated[str, typer.Option(help="Name of the system; several systems may share a server.")] = "antecede",
    journal: Annotated[
        Path | None,
        typer.Option(
            help="File for the state of this manager. With it a manager that was killed may be started again."
        ),
    ] = None,
    power: Annotated[
        bool, typer.Option("--power", help="Write the journal so that it survives a loss of power; slower.")
    ] = False,
) -> None:
    """Run a manager of topics, so that all programs read the messages of a NATS server in one total order.

    The programs use `antecede.gateway.OrderedBus`. Run one manager for each number until Ctrl-C. A manager without
    `--journal` loses its state when it ends: do not start it again while the other managers or programs run.

    Example, the first of three managers of which one may be down:

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
    stopping = asyncio.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(kind, stopping.set)
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
        stop = asyncio.ensure_future(stopping.wait())
        await asyncio.wait([trouble, stop], return_when=asyncio.FIRST_COMPLETED)
        if trouble.done():
            trouble.result()  # this bus reads no topic: all that can come is an error
        trouble.cancel()
