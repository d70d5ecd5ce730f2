"""The settings of a node, each with its default and its reason. They come from Python or from a TOML file."""

import os
import random
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_type_hints

import msgspec

from antecede.core import UsageError
from antecede.core.limits import PARTITIONS_MAX, SLOTS_MAX
from antecede.node.origins import check_origins
from antecede.protocols.live import LiveSettings
from antecede.protocols.live_registry import live_protocol
from antecede.wire.address import PORT_DEFAULT, is_loopback, split_address
from antecede.wire.transports import transport_kind

#: The one causal domain of a cluster. Topics of applications are labels inside it.
DOMAIN: Final = "main"

#: Former names of settings.
RENAMED: Final = {
    "overlay": "protocol",
    "place": "slot",
    "weather": "fault_injection",
    "weather_from": "fault_injection_from",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """A node's settings."""

    #: Tells the nodes of a cluster apart, across restarts. By default the host's name and the port.
    name: str = ""
    #: Both ends of every connection must name the same one.
    cluster: str = "antecede"
    host: str = "127.0.0.1"
    #: 0: any free one.
    port: int = PORT_DEFAULT
    #: Where others reach it, if that is not `host`: for nodes behind a translated address.
    advertise: str = ""
    #: host:port of nodes through which to join. Without any, or as the first of them, a node founds a cluster.
    seeds: tuple[str, ...] = ()
    #: Slots of the cube: the most nodes that the cluster has at a time. All nodes must agree. An empty slot costs
    #: nothing. 0: as many as the directory was founded with, and 256 in a new one (16 with "locamu", whose graph they
    #: are).
    slots: int = 0
    #: Partitions of the topics: how many, and how many levels of a topic decide which is its own (`core.partitions`).
    #: All nodes must agree. Chosen when the cluster is founded. Only "vcube" takes more than one.
    partitions: int = 1
    partition_levels: int = 2
    #: How many nodes keep the history of a partition (its homes). All nodes must agree.
    replicas: int = 3
    #: How long a node goes on taking a partition that no feed of its clients needs any more.
    linger_s: float = 30.0
    #: The slot to ask for when it joins, if that is free; −1: any.
    slot: int = -1
    #: The node's directory, with its journal and its roster. None: it forgets everything when it stops.
    directory: Path | None = None
    #: What an acknowledged message survives: the end of the process, or a power failure, too.
    durability: Literal["process", "power"] = "process"
    #: Retention: how long deliveries stay in the journal, while the node runs, and how many bytes; None: no bound.
    retain_s: float | None = None
    retain_bytes: int | None = None
    #: Deliveries between two compactions of the records that the protocol keeps.
    shorten_every: int = 20_000
    #: Deliveries kept in memory for readers, and their bytes; beyond that readers are served from the journal.
    recent_messages: int = 32_768
    recent_bytes: int = 64 * 1024 * 1024
    #: Messages of this node that may be under way to the others at one time: more hide a longer round trip.
    window: int = 4096
    #: What carries packets between nodes (`wire.transports`). All nodes must agree.
    transport: str = "tcp"
    #: The protocol (`protocols.live_registry`). All nodes must agree. "vcube": a tree for each publisher, around nodes
    #: that are down. "locamu": along an acyclic graph of the slots, in which a node knows its neighbourhood only.
    #: "gossip": each node tells a few others, drawn anew in every round. "total": one order for all.
    protocol: str = "vcube"
    #: LoCaMu's graph: "tree" (inner nodes have `degree` neighbours), "line", "star", or its edges: "0-1,0-2,1-3,…".
    graph: str = "tree"
    degree: int = 3
    #: How many nodes may be down at once on any of its paths of 2f + 1.
    f: int = 1
    #: Of gossip: its round, and how many others a message is told to in each.
    gossip_round_s: float = 0.05
    fanout: int = 3
    #: Of total: the nodes of the first slots, so many of them, number the messages together. A minority of them may be
    #: down. All nodes must agree. And how long a numbered message is waited for whose node went silent.
    managers: int = 1
    patience_s: float = 5.0
    #: The failure detector's round, and how long it waits for an answer.
    round_s: float = 1.0
    timeout_s: float = 0.8
    #: A directory made by `antecede cert init`, and the name of this node's certificate in it.
    tls: Path | None = None
    certificate: str = "node"
    #: Nodes sign the messages they publish, and check those of others; needs TLS. All nodes must agree. Off by default:
    #: it doubles a node's processor time for a small message (bench/results/signing_2026-11-16.md).
    signed: bool = False
    #: The file with the cluster key, by which nodes without TLS know each other: the same for all nodes, and made if it
    #: does not exist. None: the one that ANTECEDE_CLUSTER_KEY names, else one for all nodes of this user.
    cluster_key: Path | None = None
    #: A file made by `antecede token`: clients and their grants. None: every client may do everything, on loopback.
    tokens: Path | None = None
    #: Port of HTTP: page, health, metrics, and topics to publish on and to read. None: no HTTP. 0: any free port.
    http_port: int | None = None
    #: Where HTTP listens; "": at `host`. On loopback it is plain and open. Elsewhere it is HTTPS, and asks for a token.
    http_host: str = ""
    #: Sites whose web pages may publish and read over HTTP and WebSocket, as "https://host:port"; "*": every site.
    #: Pages that the node itself serves always may.
    http_origins: tuple[str, ...] = ()
    #: A directory whose files are served below /app/: pages of an application that uses the node. None: none.
    http_files: Path | None = None
    #: Ports for MQTT clients: plain TCP, TLS, and WebSocket (TLS off loopback). None: not served. 0: any free port.
    mqtt_port: int | None = None
    mqtts_port: int | None = None
    ws_port: int | None = None
    #: The longest keep alive of an MQTT 5 client, in seconds; a client that asks for more is told this one. 0: any.
    mqtt_keep_alive_s: int = 60
    #: For tests: faults of links to other nodes, in words of `antecede simulate`: a network (or none), then faults. A
    #: unit of time is a second, counted from `fault_injection_from`, in seconds since 1970.
    fault_injection: tuple[str, ...] = ()
    fault_injection_from: float = 0.0
    #: Former names of settings (`RENAMED`): they work for one version, with a warning.
    overlay: InitVar[str | None] = None
    place: InitVar[int | None] = None
    weather: InitVar[tuple[str, ...] | None] = None
    weather_from: InitVar[float | None] = None

    def __post_init__(
        self, overlay: str | None, place: int | None, weather: tuple[str, ...] | None, weather_from: float | None
    ) -> None:
        former = {"overlay": overlay, "place": place, "weather": weather, "weather_from": weather_from}
        for name, value in _renamed({name: value for name, value in former.items() if value is not None}).items():
            object.__setattr__(self, name, value)
        for name in ("port", "http_port", "mqtt_port", "mqtts_port", "ws_port"):
            port = getattr(self, name)
            if port is not None and not 0 <= port < 1 << 16:
                raise UsageError(name, port, "is out of range", "use 0 (any that is free) … 65535")
        for name, low, high in (
            ("slots", 0, SLOTS_MAX),
            ("partitions", 1, PARTITIONS_MAX),
            ("partition_levels", 1, 16),
            ("replicas", 1, SLOTS_MAX),
            ("linger_s", 0.1, 86_400),
            ("managers", 1, min(self.slots or SLOTS_MAX, 15)),
            ("patience_s", 0.1, 86_400),
            ("gossip_round_s", 0.001, 60),
            ("fanout", 1, 64),
            ("mqtt_keep_alive_s", 0, 65_535),
        ):
            if not low <= getattr(self, name) <= high:
                raise UsageError(name, getattr(self, name), "is out of range", f"use {low:g} … {high:g}")
        if not 0 < self.timeout_s < self.round_s:
            raise UsageError("timeout_s", self.timeout_s, "must be within a round", f"use less than {self.round_s:g}")
        protocol = live_protocol(self.protocol)
        transport_kind(self.transport)
        if self.partitions > 1 and not protocol.partitioned:
            problem = f"the protocol {self.protocol} has one partition"
            raise UsageError("partitions", self.partitions, problem, 'use 1, or protocol = "vcube"')
        protocol.agreed(self.live_settings())
        for seed in self.seeds:
            split_address(seed, "seeds")
        check_origins(self.http_origins)
        if self.advertise and split_address(self.advertise, "advertise")[1] == 0:
            raise UsageError("advertise", self.advertise, "has port 0", "name the port at which others reach this node")
        self._check_exposure()

    def _check_exposure(self) -> None:
        """Refuse to be open to other machines without protection."""
        if self.signed and self.tls is None:
            raise UsageError("signed", True, "signatures belong to certificates", "set tls too")
        if self.tokens is None and not is_loopback(self.host):
            raise UsageError(
                "tokens", None, f"every host that reaches {self.host} could publish", "make some with `antecede token`"
            )

        if self.http_port is not None and not is_loopback(self.http_at) and None in (self.tls, self.tokens):
            problem = f"every host that reaches {self.http_at} could read the status"
            raise UsageError("http_port", self.http_port, problem, 'set tls and tokens, or http_host = "127.0.0.1"')

        if self.mqtts_port is not None and self.tls is None:
            raise UsageError("mqtts_port", self.mqtts_port, "there is no certificate", "set tls too, or use mqtt_port")
        if self.mqtt_port is not None and not is_loopback(self.host):
            problem = f"tokens would travel in the clear to {self.host}"
            raise UsageError("mqtt_port", self.mqtt_port, problem, 'use mqtts_port, or host = "127.0.0.1"')
        if self.ws_port is not None and not is_loopback(self.host) and self.tls is None:
            problem = f"tokens would travel in the clear to {self.host}"
            raise UsageError("ws_port", self.ws_port, problem, 'set tls, or host = "127.0.0.1"')

    @property
    def mqtt(self) -> bool:
        """Does the node serve MQTT clients?"""
        return (self.mqtt_port, self.mqtts_port, self.ws_port) != (None, None, None)

    @property
    def http_at(self) -> str:
        """The host at which HTTP listens."""
        return self.http_host or self.host

    def live_settings(self) -> LiveSettings:
        """The settings that the protocol reads."""
        return LiveSettings(
            slots=self.slots or live_protocol(self.protocol).slots,
            domain=DOMAIN,
            partitions=self.partitions,
            rng=random.Random(),
            window=self.window,
            logged=self.directory is not None,
            graph=self.graph,
            degree=self.degree,
            f=self.f,
            gossip_round_us=int(self.gossip_round_s * 1_000_000),
            fanout=self.fanout,
            managers=self.managers,
            patience_us=int(self.patience_s * 1_000_000),
        )


def load_config(path: Path, **overrides: Any) -> NodeConfig:
    """Read a TOML file that gives the names above values. Paths count from the file's directory.

    `overrides` replace what the file says, except where they are None.
    """
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError("config", str(path), f"cannot be read ({error.strerror})", "check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError("config", str(path), f"is not TOML ({error})", "correct it") from None
    known = {one.name for one in fields(NodeConfig)}
    for name in found:
        if name not in known and name not in RENAMED:
            raise UsageError("config", f"{path}: {name}", "is not a setting", f"use one of {', '.join(sorted(known))}")
    given = {name: value for name, value in overrides.items() if value is not None}
    return make_config(_renamed(found) | _renamed(given), path.parent)


def make_config(found: dict[str, Any], base: Path | None = None) -> NodeConfig:
    """Settings as plain values. Paths count from `base`."""
    values = _renamed(found)
    defaults = {one.name: one.default for one in fields(NodeConfig)}
    hints = get_type_hints(NodeConfig)
    for name, default in defaults.items():
        if values.get(name) is None:
            continue
        if name in ("directory", "tls", "cluster_key", "tokens", "http_files"):
            if not isinstance(values[name], str | Path):
                raise UsageError(name, values[name], "is not a path", 'write for example "n0"')
            path = Path(os.path.expanduser(values[name]))
            values[name] = path if base is None else base / path
            continue
        try:
            values[name] = msgspec.convert(values[name], hints[name])
        except msgspec.ValidationError as error:
            problem = f"does not fit ({error})"
            raise UsageError(name, values[name], problem, f"by default it is {default!r}") from None
    try:
        return NodeConfig(**values)
    except TypeError as error:
        raise UsageError("config", ", ".join(values), f"does not fit ({error})", "see `antecede node --help`") from None


def _renamed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under their present names. A former name is warned of; beside the present name it is refused."""
    values = {name: value for name, value in found.items() if name not in RENAMED}
    for former, name in RENAMED.items():
        if found.get(former) is not None:
            if found.get(name) is not None:
                raise UsageError(former, found[former], f"is the former name of {name}, which is set too", "drop it")
            text = f"the setting {former} is called {name} now; the former name goes with the next version"
            warnings.warn(text, DeprecationWarning, stacklevel=4)
            values[name] = found[former]
    return values
