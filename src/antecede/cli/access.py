"""The options by which a command reaches a running node."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from antecede.client.bus import Bus
from antecede.client.connect import connect
from antecede.wire.address import PORT_DEFAULT


class Access(NamedTuple):
    """The node that a command was told to reach, and how. Each field is an option of the command."""

    url: Annotated[
        str,
        typer.Option(
            "--url",
            "-u",
            envvar="ANTECEDE_URL",
            help="Address of a node, antecede://host:port. Several, separated by commas, are tried in turn.",
        ),
    ] = f"antecede://127.0.0.1:{PORT_DEFAULT}"
    token: Annotated[
        str,
        typer.Option(
            envvar="ANTECEDE_TOKEN", help="Token of this client, if the nodes ask for one.", show_default=False
        ),
    ] = ""
    tls: Annotated[
        Path | None,
        typer.Option(
            envvar="ANTECEDE_TLS", help="Use TLS with the certificates in this directory (see `antecede cert init`)."
        ),
    ] = None
    clear_token: Annotated[
        bool, typer.Option(help="Send the token to another machine without TLS too: others on the way can read it.")
    ] = False
    cluster: Annotated[str, typer.Option(envvar="ANTECEDE_CLUSTER", help="Name of the cluster.")] = "antecede"

    def run(self, use: Callable[[Bus], Awaitable[None]]) -> None:
        """Connect, and call `use` with the client."""

        async def connected() -> None:
            access = self._asdict()
            async with connect(access.pop("url"), name="command line", **access) as bus:
                await use(bus)

        asyncio.run(connected())


def with_access(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Access` in the place of its parameter `access`, which is made of them."""
    hints = get_type_hints(Access, include_extras=True)
    options = [(name, hints[name], Access._field_defaults[name]) for name in Access._fields]
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        shown = options if parameter.name == "access" else [(parameter.name, parameter.annotation, parameter.default)]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, annotation, default in shown
        ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        access = Access(**{name: given.pop(name) for name in Access._fields})
        command(access=access, **given)

    # What typer reads.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
