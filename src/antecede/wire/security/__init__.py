"""Certificates, TLS and tokens: which peers are trusted, and what a client may do.

certificates.py  a working set for a cluster: authority, a certificate for each node and client (`antecede cert init`)
tls.py           contexts from such a set: mutual between nodes, server-only or mutual for clients
signing.py       signatures on messages: made by the node that publishes them, checked by every other
tokens.py        tokens of clients, hashed at rest, with grants to publish and subscribe by topic filter

Names are loaded when they are first used: tokens need no cryptography, whose import takes a tenth of a second.
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.wire.security.certificates import CertificateSet, init_certificates, issue
    from antecede.wire.security.tls import client_tls, node_tls
    from antecede.wire.security.tokens import ANYBODY, Client, Grants, TokenFile, new_token

__all__ = [
    "ANYBODY",
    "CertificateSet",
    "Client",
    "Grants",
    "TokenFile",
    "client_tls",
    "init_certificates",
    "issue",
    "new_token",
    "node_tls",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "certificates": ("CertificateSet", "init_certificates", "issue"),
        "tls": ("client_tls", "node_tls"),
        "tokens": ("ANYBODY", "Client", "Grants", "TokenFile", "new_token"),
    },
)
