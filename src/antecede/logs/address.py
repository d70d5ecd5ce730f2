"""Takes the URL of a log system apart.

    nats://[user:password@]host[:port][,host…]?streams=orders,shipping
    redis://[user:password@]host[:port][/database]?streams=orders,shipping
    kafka://host[:port][,host…]?topics=orders,shipping

A name may be followed by a number, `streams=orders:1,shipping:2`. All clients must then give the same numbers. Records
have smaller headers that way: a number without one is a hash of four bytes.
"""

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from antecede.core.errors import UsageError
from antecede.protocols.logs import log_number

#: The port of each system, and what its users call a log.
SYSTEMS: Final = {"nats": (4222, "streams"), "redis": (6379, "streams"), "kafka": (9092, "topics")}

#: Logs of one bus. Each is read by a task of its own.
LOGS_MAX: Final = 1024
_NUMBER_MAX: Final = 1 << 27


class Address(NamedTuple):
    scheme: str
    #: host:port
    servers: tuple[str, ...]
    user: str
    password: str
    path: str
    #: By name of a stream or Kafka topic: its number in headers.
    numbers: dict[str, int]
    #: Other options of the query.
    options: dict[str, str]

    @property
    def where(self) -> str:
        return f"{self.scheme}://{','.join(self.servers)}"


def parse_url(url: str) -> Address:
    """Raises `UsageError` for a URL that does not name servers and logs."""
    parts = urlsplit(url)
    port, word = SYSTEMS[parts.scheme]
    example = f"write for example {parts.scheme}://127.0.0.1:{port}?{word}=orders,shipping"
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}?{parts.query}"  # a password belongs into no log
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options = dict(parse_qsl(parts.query))
    names = [name for name in options.pop(word, "").split(",") if name]
    if not hosts:
        raise UsageError("url", shown, "names no server", example)
    if not names:
        raise UsageError("url", shown, f"names no {word}", example)
    if len(names) > LOGS_MAX:
        raise UsageError("url", f"{len(names)} {word}", "are too many", f"use up to {LOGS_MAX}")
    servers = tuple(host if ":" in host.rpartition("]")[2] else f"{host}:{port}" for host in hosts.split(","))
    return Address(
        parts.scheme, servers, unquote(user), unquote(password), parts.path.strip("/"), _numbers(names, word), options
    )


def _numbers(names: list[str], word: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    taken: dict[int, str] = {}
    for text in names:
        name, colon, given = text.partition(":")
        if colon and not (given.isascii() and given.isdecimal() and int(given) < _NUMBER_MAX):
            raise UsageError(word, text, "has no number behind the colon", f"use 0 … {_NUMBER_MAX - 1}")
        number = int(given) if colon else log_number(name)
        if name in numbers:
            raise UsageError(word, name, "is named twice", "name it once")
        if number in taken:
            remedy = f"give both a number in all clients: {word}={taken[number]}:1,{name}:2"
            raise UsageError(word, name, f"has the same number as {taken[number]}", remedy)
        numbers[name] = number
        taken[number] = name
    return numbers
