"""TLS for nodes and clients, from a `CertificateSet`. TLS 1.2 is the oldest that is spoken.

Between nodes both sides show a certificate of the cluster's authority that says `node`. Host names are not compared
there: nodes move, and the holder of a node's certificate *is* a node of this cluster. A client compares the name it
dialled, as browsers do, and needs no certificate of its own: its token identifies it.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from antecede.core import UsageError
from antecede.wire.codec import Hello, Welcome
from antecede.wire.listener import Tls
from antecede.wire.security.certificates import URI, CertificateSet


class Holder(NamedTuple):
    """What a certificate says its holder is."""

    role: str
    name: str


def node_tls(files: CertificateSet) -> Tls:
    """For a node: what it shows, whom it believes."""
    server = _context(ssl.PROTOCOL_TLS_SERVER, files.authority)
    server.verify_mode = ssl.CERT_OPTIONAL  # clients have none; of nodes `_trust` asks for one
    client = _context(ssl.PROTOCOL_TLS_CLIENT, files.authority)
    client.check_hostname = False
    for context in (server, client):
        _load(context, files)
    return Tls(server=server, client=client, trust=_trust, name_in=_name)


def client_tls(authority: Path, files: CertificateSet | None = None) -> ssl.SSLContext:
    """For a client: `authority` is the cluster's. `files` only if it has a certificate to show."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, authority)
    if files is not None:
        _load(context, files)
    return context


def holder(certificate: Mapping[str, Any] | None) -> Holder | None:
    """The holder that a verified certificate names; None when the certificate is not one of ours."""
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        parts = str(value).split(":", 2)
        if kind == "URI" and len(parts) == 3 and parts[0] == URI:
            return Holder(parts[1], parts[2])
    return None


def _name(certificate: Mapping[str, Any] | None) -> str | None:
    shown = holder(certificate)
    return None if shown is None else shown.name


def _trust(who: Hello | Welcome, certificate: Mapping[str, Any] | None, owner: str | None) -> str | None:
    """A node must show the certificate that its slot belongs to, dialling or answering; any node's if that is unknown.

    Others are for their token to vouch for.
    """
    if isinstance(who, Hello) and who.role != "node":
        return None
    shown = holder(certificate)
    if shown is None:
        return "a node must show a certificate of this cluster"
    if shown.role != "node":
        return f"the certificate of {shown.role} {shown.name} does not make a node"
    if owner not in (None, shown.name):
        return f"slot {who.node} belongs to {owner}, not to {shown.name}"
    return None


def _context(protocol: int, authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        raise UsageError("authority", str(authority), f"cannot be used ({error})", "run cert init") from None
    return context


def _load(context: ssl.SSLContext, files: CertificateSet) -> None:
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        problem = f"or its key cannot be used ({error})"
        raise UsageError(
            "certificate", str(files.certificate), problem, "check both files, or issue it again"
        ) from None
