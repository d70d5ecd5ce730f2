"""Makes the certificates of a cluster: one authority, and a certificate for each node and client.

    DIR/authority.pem   for all: the certificate to trust  DIR/authority.key   keep it off the nodes
    DIR/NAME.pem        certificate of a node or client    DIR/NAME.key        its key, readable by its owner only

A certificate says in a name of its own (`antecede:node:NAME`, `antecede:client:NAME`) what its holder is, so a client's
certificate never passes for a node's, though one authority signed both. Keys are elliptic (P-256): small, quick, and
known to every TLS.
"""

import contextlib
import datetime
import ipaddress
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from antecede.core import UsageError
from antecede.core.limits import CREDENTIAL_DAYS_MAX
from antecede.private_files import make_private_directory, write_private

Role: TypeAlias = Literal["node", "client"]

#: In front of the role in a certificate's own name.
URI: Final = "antecede"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

#: What a node can be reached by when nothing else is said.
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class CertificateSet(NamedTuple):
    """The files of one holder, and the authority to trust."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, directory: Path, name: str) -> "CertificateSet":
        return cls(directory / "authority.pem", directory / f"{name}.pem", directory / f"{name}.key")


def init_certificates(
    directory: Path,
    *,
    cluster: str,
    nodes: Sequence[str] = ("node",),
    clients: Sequence[str] = ("client",),
    hosts: Sequence[str] = (),
    days: int = 825,
) -> list[Path]:
    """Make an authority for `cluster` and a set for each of `nodes` and `clients`; the files written.

    `hosts` are the names and addresses by which nodes are reached, beside `LOCAL_HOSTS`. A directory that has an
    authority already is left alone: a second one would lock every node of the first out.
    """
    _check_days(days)
    for name in (*nodes, *clients):
        _check_name(name)
    if len({*nodes, *clients}) < len(nodes) + len(clients):
        raise UsageError("names", [*nodes, *clients], "are not all different", "each holder needs its own")
    with _writing(directory):
        make_private_directory(directory)
    authority = directory / "authority.pem"
    if authority.exists():
        raise UsageError("directory", str(directory), "has an authority already", "use `issue`, or another directory")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"antecede authority of {cluster}"[:64])])
    certificate = (
        _builder(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    written = [_write_key(directory / "authority.key", key), _write(authority, certificate)]
    for name in nodes:
        written += issue(directory, name, role="node", hosts=(*LOCAL_HOSTS, *hosts), days=days)
    for name in clients:
        written += issue(directory, name, role="client", days=days)
    return written


def issue(
    directory: Path, name: str, *, role: Role, hosts: Sequence[str] = (), days: int = 825, starts_in_days: int = 0
) -> list[Path]:
    """Sign a certificate for `name` with the authority in `directory`; the files written."""
    _check_days(days)
    files = CertificateSet.of(directory, _check_name(name))
    if files.certificate.exists():
        raise UsageError("name", name, f"has a certificate in {directory}", "choose another name, or remove it")
    authority, authority_key = _read_authority(directory)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.UniformResourceIdentifier(f"{URI}:{role}:{name}"), *(_general_name(host) for host in hosts)]
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role == "node":
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _builder(subject, authority.subject, key.public_key(), days, starts_in_days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return [_write_key(files.key, key), _write(files.certificate, certificate)]


def expires_s(files: CertificateSet) -> float:
    """When the certificate or its authority ends, whichever is first, in seconds since 1970."""
    try:
        found = [x509.load_pem_x509_certificate(path.read_bytes()) for path in (files.authority, files.certificate)]
    except (OSError, ValueError) as error:
        raise UsageError("certificate", str(files.certificate), f"cannot be read ({error})", "issue it again") from None
    return min([certificate.not_valid_after_utc.timestamp() for certificate in found])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int, starts_in_days: int = 0
) -> x509.CertificateBuilder:
    # An hour back: clocks of other machines may be behind.
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1) + datetime.timedelta(days=starts_in_days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _read_authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((directory / "authority.pem").read_bytes())
        key = serialization.load_pem_private_key((directory / "authority.key").read_bytes(), None)
    except FileNotFoundError as error:
        raise UsageError("directory", str(directory), f"has no {Path(error.filename).name}", "run cert init") from None
    except ValueError as error:
        raise UsageError("directory", str(directory), f"its authority cannot be read ({error})", "restore it") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UsageError("directory", str(directory), "its authority is not one of ours", "run cert init elsewhere")
    return certificate, key


def _check_days(days: int) -> None:
    if not 1 <= days <= CREDENTIAL_DAYS_MAX:
        raise UsageError("days", days, "is not how long a certificate can be valid", f"use 1 … {CREDENTIAL_DAYS_MAX}")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name == "authority":
        raise UsageError("name", name, "cannot name a certificate", "use letters, digits, dots and dashes")
    return name


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with _writing(path):
        write_private(path, pem, new=True)
    return path


def _write(path: Path, certificate: x509.Certificate) -> Path:
    with _writing(path):
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError("path", str(path), f"cannot be written ({error.strerror})", "choose another place") from None
