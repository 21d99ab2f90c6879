"""Addresses of Redis: one server, the seeds of a Cluster, or the Sentinels that know where the master is."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

SERVER = frozenset({"redis", "rediss", "unix"})
CLUSTER = frozenset({"redis+cluster", "rediss+cluster"})
SENTINEL = frozenset({"redis+sentinel", "rediss+sentinel"})
# RESP2, so that every server we support answers in the same shapes. No timeout for each write: the line has one of its
# own, and redis-py keeps it with `wait_for`, which on Python 3.11 may swallow the cancellation of the writer. None for
# connecting: redis-py would give up after 5 s although `redis.timeout_ms` allows more. Bytes that are no text are
# decoded as surrogates, which can be encoded back, instead of raising an error.
WHATEVER_THE_ADDRESS_SAYS = {
    "decode_responses": True,
    "encoding_errors": "surrogateescape",
    "protocol": 2,
    "socket_timeout": None,
    "socket_connect_timeout": None,
}
# Parameters of TLS; without this check a file that cannot be read would look like a server that is not there.
CERTIFICATE_FILES = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
CLUSTER_PORT = 6379
SENTINEL_PORT = 26379


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Connect = Callable[[Address], AbstractConnection]


class ClusterUrl(NamedTuple):
    seeds: tuple[Address, ...]
    connect: Connect


class SentinelUrl(NamedTuple):
    sentinels: tuple[Address, ...]
    master_name: str
    connect: Connect
    connect_to_sentinel: Connect


def scheme_of(url: str) -> str:
    scheme = url.partition("://")[0]
    if scheme not in SERVER | CLUSTER | SENTINEL:
        known = ", ".join(f"{name}://" for name in sorted(SERVER | CLUSTER | SENTINEL))
        raise ValueError(f"it must begin with one of {known}")
    return scheme


def read_server(url: str) -> Callable[[], Awaitable[AbstractConnection]]:
    """How to make a connection to `url`, with redis-py's own reading of it (TLS, ACL user, database)."""
    make = _maker(url)

    async def make_connection() -> AbstractConnection:
        return make()

    return make_connection


def read_cluster(url: str) -> ClusterUrl:
    """redis+cluster://[user:password@]host[:port],host[:port]…[?parameters], or rediss+cluster://"""
    parts = _split(url, CLUSTER_PORT)
    if parts.path not in ([], ["0"]):
        raise ValueError("a Cluster has only database 0")
    return ClusterUrl(parts.hosts, _connect(f"{parts.scheme}://{parts.user}{parts.hosts[0]}?{parts.query}"))


def read_sentinel(url: str) -> SentinelUrl:
    """redis+sentinel://[user:password@]host[:port],host[:port]…/master-name[/database][?parameters], or rediss+…

    User and password are those of the master; Sentinels have `sentinel_username` and `sentinel_password`.
    """
    parts = _split(url, SENTINEL_PORT)
    if not 1 <= len(parts.path) <= 2:
        raise ValueError("expected /master-name or /master-name/database after the hosts")
    master_name, database = [*parts.path, "0"][:2]
    if not database.isdecimal():
        raise ValueError(f"{database} is not a database number")
    parameters = dict(parse_qsl(parts.query))
    own = {name: parameters.pop(f"sentinel_{name}", "") for name in ("username", "password")}
    shared = {name: value for name, value in parameters.items() if name not in {"db", *own}}
    return SentinelUrl(
        parts.hosts,
        master_name,
        _connect(f"{parts.scheme}://{parts.user}{parts.hosts[0]}/{database}?{urlencode(parameters)}"),
        _connect(f"{parts.scheme}://{parts.hosts[0]}?{urlencode(shared | own)}"),
    )


def _maker(url: str) -> Callable[..., AbstractConnection]:
    if not url.startswith("unix:"):
        _check_path(urlsplit(url).path)
        _check_port(url)
    pool = Redis.from_url(url, retry=Retry(NoBackoff(), 0)).connection_pool
    for name in CERTIFICATE_FILES & pool.connection_kwargs.keys():
        path = Path(pool.connection_kwargs[name])
        try:
            path.open("rb").close()
        except OSError as error:
            raise ValueError(f"{name} names {path}, which cannot be read: {error.strerror}") from error
    make = partial(pool.connection_class, **pool.connection_kwargs | WHATEVER_THE_ADDRESS_SAYS)
    try:
        make()
    except TypeError as error:
        raise ValueError(f"unknown parameter {str(error).rpartition(' ')[2]}") from error
    return make


def _connect(url: str) -> Connect:
    make = _maker(url)
    return lambda address: make(host=address.host, port=address.port)


class _Parts(NamedTuple):
    # Of a single server.
    scheme: str
    # With the password and the @, or empty.
    user: str
    hosts: tuple[Address, ...]
    path: list[str]
    query: str


def _split(url: str, default_port: int) -> _Parts:
    """Take an address of several hosts apart, which urllib does not."""
    scheme, _, rest = url.partition("://")
    parts = urlsplit(f"//{rest}")
    _check_path(parts.path)
    user, at, hosts = parts.netloc.rpartition("@")
    return _Parts(
        scheme=scheme.partition("+")[0],
        user=user + at,
        hosts=tuple(_address(host, default_port) for host in hosts.split(",")),
        path=[unquote(name) for name in parts.path.split("/") if name],
        query=parts.query,
    )


def _address(text: str, default_port: int) -> Address:
    parts = urlsplit(f"//{text}")
    _check_port(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host is missing")
    return Address(parts.hostname, parts.port or default_port)


def _check_port(url: str) -> None:
    try:
        _ = urlsplit(url).port
    except ValueError:
        # What was taken for a port may be a piece of a password, so it is not shown.
        raise ValueError("a port is not a number up to 65535") from None


def _check_path(path: str) -> None:
    if "@" in path:
        raise ValueError("a / in a password is written %2F")
