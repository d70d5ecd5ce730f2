"""Addresses of nodes as text: `host:port`, `[ipv6]:port`, or a host alone."""

import ipaddress
from typing import Final

from antecede.core.errors import UsageError

#: Where clients and nodes look when no port is named.
PORT_DEFAULT: Final = 7400


def split_address(text: str) -> tuple[str, int]:
    """The host and the port that `text` names. An IPv6 address with a port is written in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT_DEFAULT)
    elif ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise UsageError("address", text, "has more than one colon", f"write for example [::1]:{PORT_DEFAULT}")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdecimal()) or not int(port) < 1 << 16:
        raise UsageError("address", text, "is not host:port", f"write for example 127.0.0.1:{PORT_DEFAULT}")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """The text that `split_address` reads."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Does `host` name this machine only?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
