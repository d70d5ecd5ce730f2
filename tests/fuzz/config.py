"""A node's settings as TOML: only `UsageError` may escape, and it names what is wrong."""

import tempfile
import warnings
from dataclasses import fields
from pathlib import Path

from antecede.core import UsageError
from antecede.node.config import NodeConfig, load_config
from tests.fuzz.parsers import kind_of


def read(data: bytes) -> set[str]:
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        path = Path(directory) / "node.toml"
        path.write_bytes(data)
        try:
            config = load_config(path)
        except UsageError as error:
            return {f"{error.field} {kind_of(error)}"}
        assert isinstance(config, NodeConfig)
        return {config.protocol, config.transport}


def seeds() -> dict[str, bytes]:
    found = {
        "cluster": b'name = "n0"\nport = 0\ndirectory = "."\nslots = 4\nslot = 1\nseeds = ["127.0.0.1:7400"]\n',
        "locamu": b'protocol = "locamu"\nslots = 15\ngraph = "0-1, 0-2, 1-3"\ndegree = 3\nf = 1\n',
        "gossip": b'protocol = "gossip"\ngossip_round_s = 0.05\nfanout = 3\nwindow = 64\n',
        "total": b'protocol = "total"\nmanagers = 3\npatience_s = 5.0\n',
        "open": b'host = "0.0.0.0"\ntls = "certs"\ntokens = "tokens.json"\nhttp_port = 8080\n',
        "former": b'overlay = "vcube"\nplace = 1\n',
        "faults": b'fault_injection = ["heavy-tailed:mean=0.01,shape=1.5", "loss:share=0.05"]\n',
        "nested": b"seeds = " + b"[" * 1500 + b"]" * 1500,
    }
    for one in fields(NodeConfig):
        for name, value in (("number", b"-1"), ("text", b'"x"'), ("large", b"1e400"), ("list", b"[[1], {a = 2}]")):
            found[f"{one.name}-{name}"] = one.name.encode() + b" = " + value
    return found
