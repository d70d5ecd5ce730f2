"""A node's identity where there is TLS: entries of the roster are signed, and belong to certificates.

Each node signs its own entry with the key of its certificate, and puts the certificate beside it. So an entry can be
checked whatever node passes it on: an entry for a slot is taken from the holder of the slot only, the certificate by
whose name it was first claimed. The entry also names the key by which the node signs its messages
(`wire.security.signing`), which is in the node's directory and stays the same when its certificate is renewed.

Dates are not compared here: the messages of a node that is gone stay good. TLS refuses expired certificates.
"""

import secrets
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from antecede.core import UsageError
from antecede.core.caches import BoundedCache
from antecede.node.roster import Member
from antecede.private_files import write_private
from antecede.wire.security.certificates import URI, CertificateSet

#: In a node's directory: the key by which it signs its messages.
SIGNING_KEY: Final = "signing.key"

#: What reading and checking a certificate raises that its authority did not issue, or not as we do.
_NOT_OURS: Final = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.UnsupportedGeneralNameType,
)

_REMEMBERED_MAX: Final = 4096
_HASH: Final = ec.ECDSA(hashes.SHA256())


class NodeIdentity:
    """Signs this node's entry, and checks those of others."""

    def __init__(self, files: CertificateSet, cluster: str, directory: Path | None) -> None:
        self._files = files
        self._cluster = cluster
        #: By which this node signs messages.
        self.signing_key = _signing_key(directory)
        self._public = self.signing_key.public_key().public_bytes_raw()
        self._holders: BoundedCache[Member, str | None] = BoundedCache(_REMEMBERED_MAX)
        self._issued: BoundedCache[bytes, tuple[str, ec.EllipticCurvePublicKey] | None] = BoundedCache(_REMEMBERED_MAX)
        self.load()

    def load(self) -> None:
        """Read the certificates, or read them again. Raises `UsageError`."""
        try:
            authorities = x509.load_pem_x509_certificates(self._files.authority.read_bytes())
            certificate = x509.load_pem_x509_certificate(self._files.certificate.read_bytes())
            key = serialization.load_pem_private_key(self._files.key.read_bytes(), None)
        except (OSError, ValueError) as error:
            path = str(self._files.certificate)
            raise UsageError("certificate", path, f"or its key cannot be used ({error})", "issue it again") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            path = str(self._files.key)
            raise UsageError("certificate", path, "its key is not elliptic", "issue one with antecede cert issue")
        self._authorities = authorities
        self._certificate = certificate.public_bytes(serialization.Encoding.DER)
        self._key = key
        self._issued.clear()
        self._holders.clear()

    def sign(self, member: Member) -> Member:
        """This node's entry with its certificate and signature."""
        member = msgspec.structs.replace(member, certificate=self._certificate, signing_key=self._public)
        return msgspec.structs.replace(member, signature=self._key.sign(self._statement(member), _HASH))

    def holder(self, member: Member) -> str | None:
        """The name of the certificate that signed an entry; None: the entry is not signed by a node of this cluster."""
        if member not in self._holders:
            self._holders[member] = self._check(member)
        return self._holders[member]

    def _check(self, member: Member) -> str | None:
        if not member.certificate:
            return None
        issued = self._issued.get(member.certificate)
        if issued is None:
            issued = self._issued[member.certificate] = self._open(member.certificate)
        if issued is None:
            return None
        name, key = issued
        try:
            key.verify(member.signature, self._statement(member), _HASH)
        except InvalidSignature:
            return None
        return name

    def _open(self, data: bytes) -> tuple[str, ec.EllipticCurvePublicKey] | None:
        """The name and key of a node's certificate; None: it is not one of this cluster."""
        try:
            certificate = x509.load_der_x509_certificate(data)
            if not any(_issued_by(certificate, authority) for authority in self._authorities):
                return None
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            key = certificate.public_key()
        except _NOT_OURS:
            return None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return None
        for uri in names.get_values_for_type(x509.UniformResourceIdentifier):
            scheme, _, rest = uri.partition(":")
            role, _, name = rest.partition(":")
            if scheme == URI and role == "node" and name:
                return name, key
        return None

    def _statement(self, member: Member) -> bytes:
        """What is signed: all of the entry but the signature, in this cluster."""
        later = (member.epoch, member.forgotten) if member.epoch else ()  # entries of before have no more
        return b"antecede member 1\0" + msgspec.msgpack.encode(
            (
                self._cluster,
                member.slot,
                member.name,
                member.key,
                member.address,
                member.incarnation,
                member.left,
                member.life,
                member.signing_key,
                *later,
            )
        )


def _issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except _NOT_OURS:
        return False
    return True


def _signing_key(directory: Path | None) -> Ed25519PrivateKey:
    """The key in the node's directory, made if there is none; a new one for a node that forgets everything."""
    if directory is None:
        return Ed25519PrivateKey.generate()
    path = directory / SIGNING_KEY
    try:
        if not path.exists():
            write_private(path, secrets.token_hex(32).encode() + b"\n", new=True, sync=True)
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text("ascii")))
    except (OSError, ValueError) as error:
        problem = f"cannot be used ({error})"
        raise UsageError("file", str(path), problem, "put it back; without it, start with an empty directory") from None
