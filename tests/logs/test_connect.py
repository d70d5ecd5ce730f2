"""URLs of log systems, and what loading them costs those who do not use them."""

import asyncio
import subprocess
import sys

import pytest

import antecede
from antecede import MissingExtraError, UnreachableError, UsageError
from antecede.logs.address import parse_url
from antecede.logs.subjects import may_meet, takes, to_subject
from antecede.protocols.logs import log_number

#: By scheme: the library, and what its logs are called.
LIBRARIES = {
    "kafka": ("confluent_kafka", "topics"),
    "nats": ("nats", "streams"),
    "redis": ("redis", "streams"),
}


@pytest.mark.parametrize("scheme", LIBRARIES)
def test_a_missing_extra_is_named_in_one_line(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, word = LIBRARIES[scheme]
    monkeypatch.setitem(sys.modules, library, None)

    async def story() -> None:
        async with antecede.connect(f"{scheme}://127.0.0.1:1?{word}=orders"):
            pass

    with pytest.raises(MissingExtraError, match=rf"pip install 'antecede\[{scheme}\]'") as caught:
        asyncio.run(story())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", LIBRARIES)
def test_no_server_there(scheme: str) -> None:
    async def story() -> None:
        async with antecede.connect(f"{scheme}://127.0.0.1:1?{LIBRARIES[scheme][1]}=orders", timeout_s=1):
            pass

    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        asyncio.run(story())


def test_clients_of_nodes_do_not_load_it() -> None:
    code = "import antecede, sys; antecede.connect('antecede://127.0.0.1:1'); print('antecede.logs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


def test_urls() -> None:
    address = parse_url("nats://ann:s%40cret@a:1,b?streams=orders,shipping:7&x=1")
    assert address.servers == ("a:1", "b:4222")
    assert (address.user, address.password) == ("ann", "s@cret")
    assert address.numbers == {"orders": log_number("orders"), "shipping": 7}
    assert address.options == {"x": "1"}
    assert "s@cret" not in address.where


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nats://a", "names no streams"),
        ("nats://?streams=a", "names no server"),
        ("nats://a?streams=a,a", "is named twice"),
        ("nats://a?streams=a:1,b:1", "same number as a"),
        ("nats://a?streams=a:x", "no number behind the colon"),
    ],
)
def test_urls_that_are_refused(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        antecede.connect(url)


@pytest.mark.parametrize("topic", ["a.b", "a b", "a//b", "a/*", "/a"])
def test_topics_that_are_no_subjects(topic: str) -> None:
    with pytest.raises(UsageError, match="use / between levels"):
        to_subject(topic)


def test_subjects() -> None:
    assert takes("orders.>", "orders.1.2")
    assert not takes("orders.>", "orders")
    assert takes("*.new", "orders.new")
    assert not takes("*.new", "orders.new.1")
    for pattern, subjects, meet in (
        ("#", "orders", True),
        ("orders/#", "orders.>", True),
        ("orders/#", "orders", True),
        ("orders/1", "orders.>", True),
        ("+/1", "orders.*", True),
        ("shipping/#", "orders.>", False),
        ("orders", "orders.>", False),
        ("orders/+/x", "*.1", False),
    ):
        assert may_meet(pattern, subjects) is meet, (pattern, subjects)
