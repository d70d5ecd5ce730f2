"""`antecede pub`, `sub` and `status`: a client of a running node."""

import asyncio
import json
import os
import sys
from typing import Annotated

import typer

from antecede.cli.access import Access, with_access
from antecede.cli.printing import printable
from antecede.client.bus import Bus
from antecede.client.message import Message
from antecede.client.options import PUBLISH_TIMEOUT_S, checked_timeout
from antecede.core import UsageError
from antecede.wire.cursors import MessageId
from antecede.wire.requests import parse_durability
from antecede.wire.topics import check_topic


@with_access
def pub_command(
    topic: Annotated[str, typer.Argument(help="Topic to publish on, for example rooms/42/chat.")],
    access: Access,
    message: Annotated[
        str, typer.Argument(help="The message; - publishes each line of standard input as a message.")
    ] = "-",
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="A header, name=value; may be repeated.")
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(help="Id of a message that must be delivered before this one, e.g. 3.17; may be repeated."),
    ] = None,
    durability: Annotated[
        str | None,
        typer.Option(
            help="When to acknowledge: memory, disk, or replicated(k) for k other nodes. Default: disk if the node has "
            "a journal."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds after which a message that is not acknowledged counts as failed.")
    ] = PUBLISH_TIMEOUT_S,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the ids.")] = False,
) -> None:
    """Publish a message, or each line of standard input, and print the id of each once it is acknowledged.

    Examples:

        antecede pub rooms/42/chat "hello"

        antecede pub rooms/42/chat "hello to you" --after 0.1

        tail -f log | antecede pub logs/web -
    """
    check_topic(topic)
    parse_durability(durability)
    checked_timeout(timeout)
    headers = dict(_pair(text) for text in header or [])
    follows = [MessageId.parse(text) for text in after or []] or None

    async def publish(bus: Bus) -> None:
        loop = asyncio.get_running_loop()
        while True:
            line = message.encode() if message != "-" else await loop.run_in_executor(None, sys.stdin.buffer.readline)
            if message == "-":
                if not line:
                    return
                line = line.rstrip(b"\r\n")
            identity = await bus.publish(
                topic, line, headers=headers, after=follows, durability=durability, timeout_s=timeout
            )
            if not quiet:
                typer.echo(str(identity))
            if message != "-":
                return

    access.run(publish)


@with_access
def sub_command(
    filters: Annotated[list[str], typer.Argument(help="Topic filters: + stands for one level, # for all that follow.")],
    access: Access,
    since: Annotated[
        str | None,
        typer.Option(
            help="Start behind this cursor (see --json), or with 0 at the oldest message the node has. Default: with "
            "the next message that is published."
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Stop after this many messages; 0: never.")] = 0,
    order: Annotated[
        str, typer.Option(help="causal, total (on clusters that run this protocol), fifo or none.")
    ] = "causal",
    policy: Annotated[
        str, typer.Option(help="What the node does if this reader is too slow: block, drop_oldest or disconnect.")
    ] = "block",
    max_age: Annotated[
        float | None,
        typer.Option(
            "--max-age",
            help="Skip messages older than so many seconds, and let none wait for longer for those it depends on.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each message as a JSON object with its id, cursor and headers.")
    ] = False,
) -> None:
    """Print the messages of some topics, each after the messages it depends on, as topic, tab, payload.

    Control characters in a payload are printed as escapes, for example `\\x1b`; `--json` keeps the payload exact.

    Examples:

        antecede sub 'questions/#' 'answers/#'

        antecede sub '#' --since 0 --json | jq .topic
    """

    async def read(bus: Bus) -> None:
        left = count
        async with bus.subscribe(*filters, since=since, order=order, policy=policy, max_age_s=max_age) as feed:  # type: ignore[arg-type]
            async for message in feed:
                typer.echo(_as_json(message) if as_json else _as_line(message))
                sys.stdout.flush()
                left -= 1
                if left == 0:
                    return

    try:
        access.run(read)
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@with_access
def status_command(
    access: Access,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as one JSON object.")] = False,
) -> None:
    """Show a node's members, what it has delivered, which messages it holds back and how far readers lag.

    Examples:

        antecede status

        antecede status --url antecede://127.0.0.1:7402 --json | jq .members
    """
    from rich.console import Console  # noqa: PLC0415 - JSON needs no tables

    from antecede.cli.tables import status_tables  # noqa: PLC0415

    async def ask(bus: Bus) -> None:
        status = await bus.status()
        if as_json:
            typer.echo(json.dumps(status, indent=2))
        else:
            console = Console()
            for table in status_tables(status):
                console.print(table)

    access.run(ask)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError("--header", text, "is not name=value", "write for example --header lang=en")
    return name, value


def _as_line(message: Message) -> str:
    return f"{printable(message.topic)}\t{printable(message.payload.decode(errors='backslashreplace'))}"


def _as_json(message: Message) -> str:
    try:
        body: dict[str, str] = {"payload": message.payload.decode()}
    except UnicodeDecodeError:
        body = {"payload_hex": message.payload.hex()}
    return json.dumps(
        {
            "id": str(message.id),
            "topic": message.topic,
            **body,
            "headers": message.headers,
            "cursor": message.cursor,
            "time_us": message.time_us,
            "held_ms": message.held_ms,
            "after": [str(one) for one in message.after],
            "out_of_order": message.out_of_order,
        }
    )
