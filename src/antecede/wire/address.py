"""Addresses of nodes as text: `host:port`, `[ipv6]:port`, or a host alone."""

import ipaddress
import re
from typing import Final

from antecede.core.errors import UsageError

#: Where clients and nodes look when no port is named.
PORT_DEFAULT: Final = 7400

#: The name of a host, or an IPv4 address.
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")


def split_address(text: str, field: str = "address") -> tuple[str, int]:
    """The host and the port that `text` names. An IPv6 address with a port is written in brackets.

    Raises `UsageError`, which calls the text `field`.
    """
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT_DEFAULT)
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        raise UsageError(field, text, "has more than one colon", f"write for example [::1]:{PORT_DEFAULT}")
    host = host[1:-1] if bracketed else host
    sound = _is_ipv6(host) if bracketed else _HOST.fullmatch(host) is not None
    if not sound or not (port.isascii() and port.isdecimal()) or not int(port) < 1 << 16:
        raise UsageError(field, text, "is not host:port", f"write for example 127.0.0.1:{PORT_DEFAULT}")
    return host, int(port)


def is_dialable(text: str) -> bool:
    """Does `text` name a host and a port that can be dialled?"""
    try:
        return split_address(text)[1] > 0
    except UsageError:
        return False


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


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
