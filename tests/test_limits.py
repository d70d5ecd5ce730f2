"""Bounds that clients check (docs/limits.md): at the bound it works, one beyond is an error with a remedy."""

import asyncio
from collections.abc import Callable

import pytest

import antecede
from antecede.client.options import (
    MAX_AGE_S_MAX,
    PUBLISH_TIMEOUT_S_MAX,
    check_max_age,
    check_subscription,
    checked_timeout,
    named,
)
from antecede.client.pending import PENDING_BYTES_MAX
from antecede.core import AntecedeError
from antecede.core.limits import DEPENDENCIES_MAX, TOPIC_BYTES_MAX
from antecede.wire.codec import FRAME_BYTES_MAX, NAME_CHARACTERS_MAX
from antecede.wire.envelope import BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX, seal
from antecede.wire.requests import CREDIT_MAX, FILTERS_MAX, TO_NODE, Publish
from antecede.wire.topics import TOPIC_LEVELS_MAX, check_filter, check_topic
from tests.client.running import awaited


def after(count: int) -> bytes:
    """A frame that names so many messages, as a node decodes it."""
    ids = named([antecede.MessageId(0, number + 1) for number in range(count)])
    frame = TO_NODE.frame(Publish(1, (seal("t", b"", time_us=0),), ids))
    TO_NODE.decode(frame[4:])
    return frame


BOUNDS: dict[str, tuple[int, Callable[[int], object]]] = {
    "bytes of a topic": (TOPIC_BYTES_MAX, lambda size: check_topic("t" * size)),
    "bytes of a filter": (TOPIC_BYTES_MAX, lambda size: check_filter("t" * size)),
    "levels of a topic": (TOPIC_LEVELS_MAX, lambda count: check_topic("/".join("t" * count))),
    "bytes of a payload": (BODY_BYTES_MAX, lambda size: seal("t", bytes(size), time_us=0)),
    "headers": (
        HEADERS_MAX,
        lambda count: seal("t", b"", time_us=0, headers={str(number): "" for number in range(count)}),
    ),
    "bytes of a header": (HEADER_BYTES_MAX, lambda size: seal("t", b"", time_us=0, headers={"h": "x" * size})),
    "messages named by after": (DEPENDENCIES_MAX, after),
    "timeout": (int(PUBLISH_TIMEOUT_S_MAX), checked_timeout),
    "filters of a feed": (FILTERS_MAX, lambda count: check_subscription(("t",) * count, "causal", "block", 1)),
    "messages in a feed": (CREDIT_MAX, lambda count: check_subscription(("t",), "causal", "block", count)),
    "age of messages": (int(MAX_AGE_S_MAX), check_max_age),
    "length of a name": (NAME_CHARACTERS_MAX, lambda size: antecede.connect("antecede://[::1]:1", name="n" * size)),
    "length of a token": (NAME_CHARACTERS_MAX, lambda size: antecede.connect("antecede://[::1]:1", token="t" * size)),
}


@pytest.mark.parametrize("what", BOUNDS)
def test_at_the_bound_and_one_beyond(what: str) -> None:
    bound, use = BOUNDS[what]
    use(bound)
    with pytest.raises(AntecedeError, match=r";|use") as caught:
        use(bound + 1)
    assert len(str(caught.value)) < 4000


def test_the_largest_message_fits_a_frame() -> None:
    headers = {f"{number:0{HEADER_BYTES_MAX}}": "x" * HEADER_BYTES_MAX for number in range(HEADERS_MAX)}
    payload = seal("t" * TOPIC_BYTES_MAX, bytes(BODY_BYTES_MAX), time_us=1 << 60, headers=headers)
    assert len(TO_NODE.frame(Publish(1, (payload,)))) < FRAME_BYTES_MAX


@awaited
async def test_bytes_that_are_not_acknowledged() -> None:
    """`publish` waits beyond the bound, `publish_nowait` refuses; both go on when the node has answered."""
    async with antecede.Node(port=0) as node, node.connect() as bus:
        node.hub._jammed = True
        body = bytes(BODY_BYTES_MAX)
        under_way = [bus.publish_nowait("t", body) for _ in range(PENDING_BYTES_MAX // BODY_BYTES_MAX)]
        with pytest.raises(antecede.LimitError, match="unacknowledged publications in bytes"):
            bus.publish_nowait("t", b"")
        waiting = asyncio.create_task(bus.publish("t", b""))
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in (*under_way, waiting))
        node.hub._jammed = False
        node.hub._relieved.release()
        await asyncio.gather(*under_way, waiting)
        assert bus._publications.bytes.used == 0
