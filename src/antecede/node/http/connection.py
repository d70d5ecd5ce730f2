"""One HTTP connection, driven by asyncio and parsed by h11. What a request is answered with is the server's business.

A connection carries one request, and another one behind it only where the answer allows that (`Answer.keep`). Every
wait of a stranger has a deadline: the head of a request, its body, and the time in which an answer is taken.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import h11

from antecede.node.accepted import AcceptedSocket
from antecede.node.http.answers import SOON, Answer, refusal
from antecede.node.http.request import Request
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.http.server import HttpServer

#: Bytes of a request line and its headers. Browsers send less than one kilobyte; the cursor of a cluster with 1,024
#: nodes has up to 26.
HEAD_BYTES_MAX: Final = 32 * 1024
#: From the first byte of a connection to the end of the request's head; and from the answer to its last byte.
CONNECTION_S: Final = 5.0
#: From the head of a request to the end of its body; and between two requests of a connection.
BODY_S: Final = 30.0
#: How long a request is worked on whose client sends nothing more: most of these have left.
LEFT_S: Final = 5.0
#: How long a reader of a stream may leave what was written to it.
STALL_S: Final = 30.0

_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
)
_POLICY: Final = (
    "Content-Security-Policy",
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'",
)


#: Answers a request that is complete; None: it is answered later, or by a stream.
Doing: TypeAlias = "Callable[[Connection, Request], Answer | Coroutine[Any, Any, Answer] | None]"


class Work(NamedTuple):
    """What to do once a request is complete."""

    do: Doing
    body_max: int = 0


class StreamOwner(Protocol):
    """Writes the answer of a connection bit by bit."""

    def writable(self) -> None:
        """There is room again."""
        ...

    def closed(self) -> None:
        """The connection is gone."""
        ...

    def end(self, problem: str) -> None:
        """Say why the stream ends, and end it."""
        ...


class Connection(AcceptedSocket):
    """One socket."""

    def __init__(self, server: "HttpServer") -> None:
        super().__init__()
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._request: Request | None = None
        self._work: Work | None = None
        self._body = bytearray()
        self._body_taken = 0
        #: The answer is being made, or on its way.
        self._busy = False
        self._answering: asyncio.Task[None] | None = None
        #: Bytes that arrived while the answer was being made.
        self._ahead = 0
        self._stream: StreamOwner | None = None

    def close(self) -> None:
        """The token of this connection is no longer good."""
        if self._stream is not None:
            self._stream.end("the token of this stream is no longer good; use another one")
        else:
            self.abort()

    def say_goodbye(self) -> None:
        """The node stops."""
        if self._stream is not None:
            self._stream.end("the node stops; go on from the last id, here or at another node")

    # -- what asyncio calls --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._server.opened(self):
            self.abort()
            return
        self._at(CONNECTION_S, self._too_slow)
        context = self._server.tls
        if context is not None:
            self.secure(context, CONNECTION_S)

    def tls_failed(self, problem: str) -> None:
        self._server.refused(self, Reason.TLS, problem)

    def received(self, data: bytes) -> None:
        if self._done or self._stream is not None:
            return  # the answer is on its way; nothing else is
        self._http.receive_data(data)
        if not self._busy:
            self._read()
            return
        self._ahead += len(data)
        if self._ahead > HEAD_BYTES_MAX and self._transport is not None:
            self._transport.pause_reading()  # the next requests wait for their turn

    def eof_received(self) -> bool:
        """The client sends nothing more: it has left, or still waits for its answer. A stream ends."""
        if self._answering is not None:
            self._at(LEFT_S, self.abort)
            return True
        return self._done

    def pause_writing(self) -> None:
        self.can_write = False
        if self._stream is not None:
            self._at(STALL_S, self._stalled)

    def resume_writing(self) -> None:
        self.can_write = True
        if self._stream is not None:
            self._no_deadline()
            self._stream.writable()

    def connection_lost(self, error: Exception | None) -> None:
        self._done = True
        self._no_deadline()
        self._drop_body()
        if self._answering is not None:
            self._answering.cancel()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.closed()
        self._server.closed(self)

    # -- a request -----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read a request, as far as it is there."""
        while not self._busy and not self._done:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._server.refused(self, Reason.MALFORMED, str(error))
                problem = f"is not HTTP/1.1 ({error})"
                self._respond(refusal(error.error_status_hint, "request", "", problem, "correct it"))
                return
            if isinstance(event, h11.Request):
                self._begin(Request.of(event))
            elif isinstance(event, h11.Data):
                self._take(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._complete()
            else:
                return

    def _begin(self, request: Request) -> None:
        """The head of a request is there."""
        self._request = request
        found = self._server.route(self, request)
        if isinstance(found, Answer):
            self._respond(found)
            return
        declared = request.headers.get(b"content-length", b"0")
        if found.body_max and int(declared) > found.body_max:
            self._respond(_too_long(int(declared), found.body_max))
            return
        self._work = found
        if found.body_max:
            self._at(BODY_S, self._too_slow)
            if self._http.they_are_waiting_for_100_continue:
                assert self._transport is not None
                data = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
                self._transport.write(data or b"")

    def _take(self, data: bytes) -> None:
        assert self._work is not None
        self._body += data
        size = len(self._body)
        if size > self._work.body_max:
            self._respond(_too_long(size, self._work.body_max))
            return
        self._body_taken += len(data)
        if not self._server.take_body(len(data)):
            problem = "the node holds as many bytes of unfinished requests as it may"
            self._respond(refusal(503, "body", size, problem, "try again later", headers=SOON))

    def _complete(self) -> None:
        """The request is complete: answer it."""
        assert self._work is not None
        assert self._request is not None
        work, request = self._work, self._request._replace(body=bytes(self._body))
        self._drop_body()
        self._busy = True
        self._no_deadline()
        self._server.complete(self)
        found = work.do(self, request)
        if isinstance(found, Answer):
            self._respond(found)
        elif found is not None:
            self._answering = asyncio.get_running_loop().create_task(self._await(found))

    def _drop_body(self) -> None:
        self._server.give_body_back(self._body_taken)
        self._work, self._body, self._body_taken = None, bytearray(), 0

    async def _await(self, work: Coroutine[Any, Any, Answer]) -> None:
        try:
            answer = await work
        except Exception as error:  # no one awaits this task: without an answer the client would wait
            self._server.failed(error)
            answer = refusal(500, "node", "", f"it failed ({type(error).__name__})", "see its log")
        self._answering = None
        if not self._done:
            self._respond(answer)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _respond(self, answer: Answer) -> None:
        assert self._transport is not None
        self._busy = True
        self._drop_body()
        self._server.complete(self)
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        keep = answer.keep and self._http.their_state is h11.DONE
        headers = [("Content-Type", answer.kind), ("Content-Length", str(len(body))), *answer.headers]
        self._send_head(answer.status, headers, keep=keep, data=body)
        if keep and self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
            self._busy, self._request = False, None
            if self._ahead > HEAD_BYTES_MAX:
                self._transport.resume_reading()
            self._ahead = 0
            self._server.waits_again(self)
            self._at(BODY_S, self.abort)
            self._read()
            return
        self._done = True
        self._at(CONNECTION_S, self.abort)
        if self._is_read():
            self._transport.close()  # after what was written
        elif self._transport.can_write_eof():
            # Closed now, with bytes of the request unread, the socket would be reset, and the answer lost.
            self._transport.write_eof()

    def _is_read(self) -> bool:
        """Is the request complete?"""
        try:
            while self._http.their_state is h11.SEND_BODY and self._http.next_event() is not h11.NEED_DATA:
                pass
        except h11.RemoteProtocolError:
            return False
        return self._http.their_state is not h11.SEND_BODY and self._http.their_state is not h11.ERROR

    def _send_head(self, status: int, headers: list[tuple[str, str]], *, keep: bool, data: bytes | None = None) -> None:
        """Write the head of an answer; with `data` all of it."""
        assert self._transport is not None
        request = self._request
        every = [*headers, *(() if request is None else self._server.origins.headers(request.headers)), *_HEADERS]
        if not any(name == _POLICY[0] for name, _ in headers):
            every.append(_POLICY)
        if not keep:
            every.append(("Connection", "close"))
        out = [self._http.send(h11.Response(status_code=status, headers=every))]
        if data is not None:
            if (request is None or request.method != "HEAD") and data:
                out.append(self._http.send(h11.Data(data=data)))
            out.append(self._http.send(h11.EndOfMessage()))
        self._write(b"".join([one for one in out if one]))

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._server.node.counts_edge.bytes_sent += len(data)
        self._transport.write(data)

    # -- a stream ------------------------------------------------------------------------------------------------------

    def attach(self, stream: StreamOwner) -> None:
        """The answer is a stream, once that has begun."""
        self._stream = stream

    def begin_stream(self, kind: str) -> None:
        """Write the head of the answer. It ends with `end_stream`, or with the connection."""
        self._no_deadline()
        self._send_head(200, [("Content-Type", kind)], keep=False)

    def write(self, data: bytes) -> None:
        """Write a part of the stream."""
        if not self._done:
            self._write(self._http.send(h11.Data(data=data)) or b"")

    def end_stream(self) -> None:
        if not self._done and self._transport is not None:
            self._write(self._http.send(h11.EndOfMessage()) or b"")
            self._done = True
            self._transport.close()
            self._at(CONNECTION_S, self.abort)

    def answer(self, answer: Answer) -> None:
        """Answer a request whose work returned nothing."""
        if not self._done:
            self._respond(answer)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def wait_at_most(self, seconds: float) -> None:
        """The answer begins within this time, or the connection ends."""
        self._at(seconds, self.abort)

    def _too_slow(self) -> None:
        self._server.refused(self, Reason.SILENT, "no complete request in time")
        self.abort()

    def _stalled(self) -> None:
        self._server.refused(self, Reason.SILENT, f"the reader of a stream took nothing for {STALL_S:g} s")
        self.abort()


def _too_long(size: int, body_max: int) -> Answer:
    problem = f"is longer than {body_max:,} bytes"
    return refusal(413, "body", size, problem, "send it in pieces, or a reference to it")
