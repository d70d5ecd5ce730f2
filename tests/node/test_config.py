"""What is wrong with a node's settings is said by name, value and remedy, wherever they come from."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import Node
from antecede.node.config import NodeConfig, load_config, make_config
from antecede.node.local_cluster import LocalCluster
from antecede.wire.security import init_certificates, new_token
from tests.client.running import awaited


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"port": "x"}, "port"),
        ({"port": 99_999}, "port"),
        ({"port": True}, "port"),
        ({"http_port": -1}, "http_port"),
        ({"slots": 2.5}, "slots"),
        ({"slots": 1025}, "slots"),
        ({"partitions": 257}, "partitions"),
        ({"partitions": 2, "protocol": "total"}, "partitions"),
        ({"partitions": 2, "protocol": "locamu"}, "partitions"),
        ({"partitions": 2, "protocol": "gossip"}, "partitions"),
        ({"partition_levels": 0}, "partition_levels"),
        ({"replicas": 0}, "replicas"),
        ({"seeds": "127.0.0.1:7400"}, "seeds"),  # a text is not a list of its letters
        ({"seeds": [7400]}, "seeds"),
        ({"round_s": "1"}, "round_s"),
        ({"directory": 5}, "directory"),
        ({"durability": "always"}, "durability"),
        ({"protocol": "flood"}, "protocol"),
        ({"overlay": "gossip", "protocol": "gossip"}, "overlay"),
        ({"place": "x"}, "slot"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(antecede.UsageError) as told:
        make_config(settings)
    assert told.value.field == field


def test_settings_that_fit_are_taken(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('port = 7401\nseeds = ["h:1"]\nround_s = 2\ndirectory = "n1"\nretain_s = 60\n')
    config = load_config(tmp_path / "node.toml", port=7402)
    assert (config.port, config.seeds, config.round_s, config.directory) == (7402, ("h:1",), 2.0, tmp_path / "n1")


FORMER = {"overlay": "gossip", "place": 3, "weather": ["loss:share=0.1"], "weather_from": 5.0}


@pytest.mark.parametrize("make", [make_config, lambda found: NodeConfig(**found), lambda found: Node(**found).config])
def test_former_names_of_settings_work_and_are_warned_of(make: Callable[[dict[str, Any]], NodeConfig]) -> None:
    with pytest.warns(DeprecationWarning, match="is called") as told:
        config = make(FORMER)
    assert (config.protocol, config.slot) == ("gossip", 3)
    assert (tuple(config.fault_injection), config.fault_injection_from) == (("loss:share=0.1",), 5.0)
    assert [str(one.message).split()[2] for one in told] == list(FORMER)


def test_a_former_name_in_a_file_gives_way_to_an_option(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('overlay = "total"\nplace = 2\n')
    with pytest.warns(DeprecationWarning, match="the setting overlay is called protocol now"):
        config = load_config(tmp_path / "node.toml", protocol="locamu")
    assert (config.protocol, config.slot) == ("locamu", 2)


def test_no_outgoing_connection_takes_the_port_of_a_node_that_restarts(tmp_path: Path) -> None:
    """The system gives outgoing connections ports from a range of their own, 32768 and above by default."""
    cluster = LocalCluster(tmp_path, nodes=64)
    assert len(set(cluster.ports)) == 64
    assert max(cluster.ports) < 32_768


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(antecede.UsageError, match="is not TOML"):
        load_config(tmp_path / "node.toml")


@awaited
async def test_a_page_whose_port_is_taken_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(antecede.UsageError, match=f"http_port {port}: cannot be listened on"):
            async with antecede.Node(port=0, http_port=port):
                pass


def test_a_cluster_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(antecede.UsageError, match="cannot be written"):
            LocalCluster(place, nodes=1)
    with pytest.raises(antecede.UsageError, match="port 65535: is out of range"):
        LocalCluster(tmp_path / "new", nodes=2, first_port=65_535)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    (tmp_path / "ports.json").write_text("[7400, ")
    with pytest.raises(antecede.UsageError, match=r"ports\.json.*is not a list of ports"):
        LocalCluster(tmp_path, nodes=1)


def test_certificates_and_tokens_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(antecede.UsageError, match="cannot be written"):
        init_certificates(tmp_path / "file" / "certs", cluster="antecede")
    with pytest.raises(antecede.UsageError, match="cannot be written"):
        new_token(tmp_path / "nowhere" / "tokens.json", "carol")
