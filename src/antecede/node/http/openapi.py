"""The description of the HTTP server in OpenAPI's terms. A test holds it to the routes."""

from functools import cache
from typing import Any, Final

import msgspec

from antecede.wire.envelope import BODY_BYTES_MAX
from antecede.wire.requests import FILTERS_MAX

_TEXT: Final = {"type": "string"}


def _parameter(name: str, where: str, about: str, *, required: bool = False, many: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _TEXT, "maxItems": FILTERS_MAX} if many else _TEXT
    told = {"name": name, "in": where, "required": required, "description": about, "schema": schema}
    return told | ({"style": "form", "explode": True} if many else {})


def _answers(status: str, about: str, kind: str, schema: dict[str, Any], *errors: int) -> dict[str, Any]:
    told: dict[str, Any] = {status: {"description": about, "content": {kind: {"schema": schema}}}}
    for code in errors:
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        told[str(code)] = {"description": _ERRORS[code], "content": content}
    return told


_ERRORS: Final = {
    400: "The request is wrong: a topic, filter, cursor, header or body.",
    401: "A token is needed, or this one is not known.",
    403: "The token, or the site of the page, may not do this.",
    404: "There is nothing here.",
    410: "The node has no journal and was started anew: it cannot go on from this cursor.",
    413: "The body is too long.",
    503: "The node is starting, stopping or full. Try again.",
    504: "The publication was not safe in time; `may_arrive` says whether it may still be delivered.",
}

_TOPIC: Final = _parameter("topic", "path", "A topic; its slashes may stand as they are.", required=True)
_PLAIN: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"


def _page(about: str, kind: str) -> dict[str, Any]:
    return {"summary": about, "responses": _answers("200", about, kind, _TEXT, 401, 403)}


#: By path and method.
_PATHS: Final[dict[str, dict[str, Any]]] = {
    "/": {"get": _page("A page to look at the node with.", "text/html")},
    "/page.css": {"get": _page("The style of the pages.", "text/css")},
    "/page.js": {"get": _page("The script of the page.", "text/javascript")},
    "/live": {"get": _page("A page to look at what flows, by topic.", "text/html")},
    "/live.js": {"get": _page("The script of that page.", "text/javascript")},
    "/ports": {
        "get": {
            "summary": "The ports of MQTT and WebSocket, by setting.",
            "responses": _answers("200", "Those that are served.", _JSON, {"type": "object"}, 401),
        }
    },
    "/app/{file}": {
        "get": {
            "summary": "A file of the directory that `http_files` names; without a name its index.html.",
            "parameters": [_parameter("file", "path", "The path of the file.", required=True)],
            "responses": _answers("200", "The file.", "application/octet-stream", _TEXT, 401, 404, 413, 503),
        }
    },
    "/health": {
        "get": {
            "summary": "Whether the node is well. Asks for no token.",
            "security": [],
            "responses": {
                "200": {"description": "It is.", "content": {_PLAIN: {"schema": _TEXT}}},
                "503": {"description": "It is not, and why.", "content": {_PLAIN: {"schema": _TEXT}}},
            },
        }
    },
    "/metrics": {"get": _page("Figures as Prometheus reads them.", "text/plain; version=0.0.4; charset=utf-8")},
    "/status": {
        "get": {
            "summary": "The state of the node.",
            "responses": _answers("200", "Members, positions, counts.", _JSON, {"type": "object"}, 401, 403),
        }
    },
    "/openapi.json": {
        "get": {
            "summary": "This description.",
            "responses": _answers("200", "OpenAPI 3.1.", _JSON, {"type": "object"}, 401),
        }
    },
    "/topics": {
        "get": {
            "summary": "Read messages as server-sent events, in causal order.",
            "description": "The id of an event is the cursor behind its message. Events `gap` and `ended` have a name.",
            "parameters": [
                _parameter("filter", "query", "A topic filter: rooms/+/chat, rooms/%23.", required=True, many=True),
                _parameter("since", "query", 'Where to begin: the id of an event, or "0" for everything.'),
                _parameter(
                    "max_age", "query", "Skip messages older than so many seconds, and let none wait for longer."
                ),
                _parameter("Last-Event-ID", "header", "The same as `since`, and before it. Browsers send it."),
            ],
            "responses": _answers(
                "200", "Messages, as they come.", "text/event-stream", _TEXT, 400, 401, 403, 410, 413, 503
            ),
        }
    },
    "/topics/{topic}": {
        "post": {
            "summary": "Publish the body as a message.",
            "parameters": [
                _TOPIC,
                _parameter("Antecede-After", "header", "What it follows: ids of messages, or the id of an event."),
                _parameter("Antecede-Durability", "header", "memory, disk or replicated(k)."),
                _parameter("Antecede-Timeout", "header", "Seconds that it may take; 30 if not given."),
            ],
            "requestBody": {
                "required": False,
                "description": f"Up to {BODY_BYTES_MAX:,} bytes. With Content-Type application/json it must be JSON. "
                "Headers Antecede-Header-Name become headers of the message.",
                "content": {"application/json": {}, "text/plain": {}, "application/octet-stream": {}},
            },
            "responses": _answers(
                "200",
                "It is as safe as was asked.",
                _JSON,
                {"$ref": "#/components/schemas/Published"},
                *(400, 401, 403, 413, 503, 504),
            ),
        }
    },
    "/topics/{topic}/last": {
        "get": {
            "summary": "The message that this node delivered last on a topic.",
            "parameters": [_TOPIC],
            "responses": _answers(
                "200", "It.", _JSON, {"$ref": "#/components/schemas/Message"}, 400, 401, 403, 404, 503
            ),
        }
    },
}

_SCHEMAS: Final = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["field", "value", "problem", "remedy"],
                "properties": {"field": _TEXT, "value": {}, "problem": _TEXT, "remedy": _TEXT},
            },
            "may_arrive": {"type": "boolean", "description": "May the message still be delivered?"},
        },
    },
    "Published": {
        "type": "object",
        "required": ["id", "topic", "cursor"],
        "properties": {
            "id": {**_TEXT, "description": "The message; give it as Antecede-After."},
            "topic": _TEXT,
            "cursor": {**_TEXT, "description": "Right before it; a stream with it as `since` has all answers."},
        },
    },
    "Message": {
        "type": "object",
        "required": ["id", "topic", "time_us"],
        "description": "The body is one of json, text and base64.",
        "properties": {
            "id": _TEXT,
            "topic": _TEXT,
            "time_us": {"type": "integer"},
            "json": {},
            "text": _TEXT,
            "base64": {**_TEXT, "contentEncoding": "base64"},
            "headers": {"type": "object", "additionalProperties": _TEXT},
            "after": {"type": "array", "items": _TEXT, "description": "Its immediate predecessors."},
            "out_of_order": {"type": "boolean"},
            "cursor": {**_TEXT, "description": "Behind it; in an event, the id is the cursor."},
        },
    },
}


@cache
def document() -> str:
    """OpenAPI 3.1, as JSON."""
    info = {"title": "antecede", "version": "1", "description": "Causal publish/subscribe over HTTP."}
    schemes = {"token": {"type": "http", "scheme": "bearer"}, "password": {"type": "http", "scheme": "basic"}}
    told = {
        "openapi": "3.1.0",
        "info": info,
        "paths": _PATHS,
        "components": {"schemas": _SCHEMAS, "securitySchemes": schemes},
        "security": [{}, {"token": []}, {"password": []}],
    }
    return msgspec.json.format(msgspec.json.encode(told), indent=1).decode()
