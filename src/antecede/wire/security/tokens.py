"""Tokens identify clients, and grant what each may publish and subscribe to.

A token is 32 random bytes, shown once when it is made. The file of a node holds only its SHA-256: random bytes cannot
be guessed, so nothing slower is needed. Comparison takes the same time for every wrong token.

    {"clients": [{"name": "carol", "token_sha256": "…", "publish": ["answers/#"], "subscribe": ["#"],
                  "expires": "2027-01-31T00:00:00Z"}]}

A grant is a topic filter. A client may publish on what one of its `publish` filters matches, and subscribe to filters
that one of its `subscribe` filters *covers*: whatever the asked-for filter could match, the granted one matches.
"""

import datetime
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from antecede.core import UsageError
from antecede.core.limits import CREDENTIAL_DAYS_MAX
from antecede.private_files import write_private
from antecede.wire.topics import TopicFilter, check_filter, covers

#: Clients in one file. Every wrong token is compared with all of them.
CLIENTS_MAX: Final = 10_000


class Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One entry of a token file."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    token_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    #: May it ask how the node is (`antecede status`)?
    status: bool = False
    #: May it change the cluster (`antecede cluster forget`)?
    operate: bool = False
    #: From then on the token is not taken any more. None: it is good until it is removed.
    expires: Annotated[datetime.datetime, Meta(tz=True)] | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    clients: Annotated[tuple[Client, ...], Meta(max_length=CLIENTS_MAX)] = ()


class Grants:
    """What one client may do. Compiled once, asked for every publication."""

    def __init__(
        self,
        name: str,
        publish: tuple[str, ...],
        subscribe: tuple[str, ...],
        *,
        may_ask: bool = False,
        may_operate: bool = False,
        client: Client | None = None,
    ) -> None:
        self.name = name
        #: The entry of the token file that it came from.
        self.client = client
        expires = None if client is None else client.expires
        self._expires_s = None if expires is None else expires.timestamp()
        #: May it ask how the node is?
        self.may_ask = may_ask
        #: May it change the cluster?
        self.may_operate = may_operate
        self._publish = [TopicFilter(pattern).matches for pattern in publish]
        self._subscribe = [check_filter(pattern) for pattern in subscribe]

    @property
    def empty(self) -> bool:
        """May it neither publish nor subscribe to anything?"""
        return not self._publish and not self._subscribe

    def expired(self, now_s: float) -> bool:
        """Is the token past its end? `now_s`: seconds since 1970."""
        return self._expires_s is not None and now_s >= self._expires_s

    def may_publish(self, topic: str) -> bool:
        return any(matches(topic) for matches in self._publish)

    def may_subscribe(self, pattern: str) -> bool:
        return any(covers(granted, pattern) for granted in self._subscribe)


#: Where no tokens are asked for: on loopback, in tests, in one process.
ANYBODY: Final = Grants("anybody", ("#",), ("#",), may_ask=True, may_operate=True)


class TokenFile:
    """The clients of a node."""

    def __init__(self, clients: tuple[Client, ...]) -> None:
        self._digests = [bytes.fromhex(client.token_sha256) for client in clients]
        self._grants = [_grants(client) for client in clients]
        self._clients = {client.name: client for client in clients}
        names = [client.name for client in clients]
        if len(set(names)) < len(names):
            raise UsageError("tokens", sorted(names), "name a client twice", "merge the entries")

    @classmethod
    def read(cls, path: Path) -> "TokenFile":
        return cls(_read(path))

    def find(self, token: str) -> Grants | None:
        """The grants of the client that shows `token`; None: it is nobody's. Every entry is compared, always."""
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        found: Grants | None = None
        for known, grants in zip(self._digests, self._grants, strict=True):
            if hmac.compare_digest(digest, known):
                found = grants
        return found

    def named(self, name: str) -> Grants | None:
        """The grants of the client with this name, which was made sure of otherwise; None: there is none."""
        return next((grants for grants in self._grants if grants.name == name), None)

    def has(self, grants: Grants) -> bool:
        """Does the file still have the entry that `grants` came from, unchanged?"""
        return self._clients.get(grants.name) == grants.client


def new_token(
    path: Path,
    name: str,
    *,
    publish: tuple[str, ...] = (),
    subscribe: tuple[str, ...] = (),
    status: bool = False,
    operate: bool = False,
    days: int | None = None,
) -> str:
    """Add a client to the file at `path`, made if need be; its token, which is stored nowhere else.

    `days`: how long the token is good; None: until its entry is removed.
    """
    if days is not None and not 1 <= days <= CREDENTIAL_DAYS_MAX:
        raise UsageError("days", days, "is not how long a token can be good", f"use 1 … {CREDENTIAL_DAYS_MAX}, or none")
    if not 1 <= len(name) <= 256:
        raise UsageError("name", name, "is empty or too long", "use 1 to 256 characters")
    for pattern in (*publish, *subscribe):
        check_filter(pattern)
    clients = _read(path) if path.exists() else ()
    if any(client.name == name for client in clients):
        raise UsageError("name", name, f"is in {path} already", "choose another, or remove that entry")
    token = secrets.token_urlsafe(32)
    digest = hashlib.sha256(token.encode()).hexdigest()
    expires = None if days is None else datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    client = Client(
        name=name,
        token_sha256=digest,
        publish=publish,
        subscribe=subscribe,
        status=status,
        operate=operate,
        expires=expires,
    )
    data = msgspec.json.format(msgspec.json.encode(_File((*clients, client))), indent=2)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_private(temporary, data + b"\n")
        temporary.replace(path)  # a node that reads the file sees the old one or the new one
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise UsageError("token file", str(path), problem, "choose another place") from None
    return token


def _read(path: Path) -> tuple[Client, ...]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File).clients
    except OSError as error:
        raise UsageError("token file", str(path), f"cannot be read ({error.strerror})", "check the path") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError("token file", str(path), f"is not one ({error})", "make it with `antecede token`") from None


def _grants(client: Client) -> Grants:
    return Grants(
        client.name,
        client.publish,
        client.subscribe,
        may_ask=client.status,
        may_operate=client.operate,
        client=client,
    )
