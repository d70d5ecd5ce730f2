"""The routes of a node's HTTP server, and who may use each. `/openapi.json` describes them (`openapi`)."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from antecede.core import UsageError
from antecede.node.http.answers import JSON, Answer, mistake, refusal
from antecede.node.http.files import read
from antecede.node.http.openapi import document
from antecede.node.http.topics import give_last, publish, subscribe
from antecede.node.metrics import CONTENT_TYPE, metrics
from antecede.node.status import problems
from antecede.wire.envelope import BODY_BYTES_MAX
from antecede.wire.security.tokens import Grants

if TYPE_CHECKING:
    from antecede.node.http.connection import Connection, Doing
    from antecede.node.http.request import Request
    from antecede.node.http.server import HttpServer
    from antecede.node.node import Node

#: Who may use a route: every stranger; with a token wherever HTTP is not on loopback; the same, and the token must be
#: good for the status; with a token wherever the node has tokens, within its grants.
OPEN: Final = "open"
TOKEN: Final = "token"
STATUS: Final = "status"
TOPICS: Final = "topics"

#: Makes what answers a request once it is complete.
Works: TypeAlias = "Callable[[HttpServer, Grants], Doing]"


class Route(NamedTuple):
    """One kind of request. A name in braces stands for the rest of the path, slashes included."""

    method: str
    path: str
    guard: str
    #: Answers at once; or `work` does, once the request is complete.
    answer: "Callable[[Node], Answer] | None" = None
    work: "Works | None" = None
    body_max: int = 0
    #: May the name in braces be empty?
    may_be_empty: bool = False


@cache
def _read(name: str) -> str:
    return files("antecede.node").joinpath(name).read_text("utf-8")


def _page(name: str, kind: str) -> "Callable[[Node], Answer]":
    return lambda node: Answer(200, _read(name), f"{kind}; charset=utf-8")


def _health(node: "Node") -> Answer:
    found = problems(node)
    return Answer(503 if found else 200, "".join(f"{problem}\n" for problem in found) or "ok\n")


def _status(node: "Node") -> Answer:
    told = node.status()
    del told["journal"]  # where files are is for `antecede status`, which asks for a token
    return Answer(200, msgspec.json.encode(told).decode(), JSON)


def _ports(node: "Node") -> Answer:
    ports = {} if node.mqtt is None else node.mqtt.ports
    return Answer(200, msgspec.json.encode(ports).decode() + "\n", JSON)


def _file(server: "HttpServer", grant: Grants) -> "Doing":
    """`GET /app/{file}`."""

    def do(connection: "Connection", request: "Request") -> "Answer | Coroutine[Any, Any, Answer]":
        directory = server.node.config.http_files
        if directory is None:
            return refusal(404, "path", request.path, "the node serves no files", "set http_files to a directory")
        try:
            name = request.below("/app/")
        except UsageError as error:
            return mistake(error)
        full = server.admit(connection)
        return full if full is not None else asyncio.to_thread(read, directory, name)

    return do


ROUTES: Final = (
    Route("GET", "/", STATUS, _page("page.html", "text/html")),
    Route("GET", "/page.css", STATUS, _page("page.css", "text/css")),
    Route("GET", "/page.js", STATUS, _page("page.js", "text/javascript")),
    Route("GET", "/live", STATUS, _page("live.html", "text/html")),
    Route("GET", "/live.js", STATUS, _page("live.js", "text/javascript")),
    Route("GET", "/health", OPEN, _health),
    Route("GET", "/metrics", STATUS, lambda node: Answer(200, metrics(node), CONTENT_TYPE)),
    Route("GET", "/status", STATUS, _status),
    Route("GET", "/openapi.json", TOKEN, lambda node: Answer(200, document(), JSON)),
    Route("GET", "/ports", TOKEN, _ports),
    Route("GET", "/app/{file}", TOKEN, work=_file, may_be_empty=True),
    Route("GET", "/topics", TOPICS, work=subscribe),
    Route("POST", "/topics/{topic}", TOPICS, work=publish, body_max=BODY_BYTES_MAX),
    Route("GET", "/topics/{topic}/last", TOPICS, work=give_last),
)


def _matches(route: Route, path: str) -> bool:
    prefix, wild, rest = route.path.partition("{")
    if not wild:
        return path == route.path
    suffix = rest.partition("}")[2]
    shortest = len(prefix) + len(suffix) + (not route.may_be_empty)
    return path.startswith(prefix) and path.endswith(suffix) and len(path) >= shortest


def find_route(method: str, path: str) -> Route:
    """The route of a request; HEAD is GET without a body. Raises `UsageError` if there is none."""
    there = [route for route in ROUTES if _matches(route, path)]
    if not there:
        known = ", ".join(dict.fromkeys([route.path for route in ROUTES]))
        raise UsageError("path", path, "there is nothing here", f"there are {known}")
    wanted = "GET" if method == "HEAD" and path != "/topics" else method
    for route in there:
        if route.method == wanted:
            return route
    raise UsageError("method", method, f"is not for {path}", f"use {methods_of(path)}")


def methods_of(path: str) -> str:
    """The methods that there are for a path; empty: there is nothing."""
    return ", ".join([route.method for route in ROUTES if _matches(route, path)])
