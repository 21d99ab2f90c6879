"""Real Redis Clusters and Sentinels for tests, on loopback ports, without persistence; they end when we do."""

import socket
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.crc import key_slot

from lingua_scheduler.store.servers.local_cluster import (
    LocalCluster,
    LocalServer,
    in_step,
    is_ok,
    on_free_port,
    wait_for,
)

MASTER_NAME = "lingua"
# For tests of what has keys in several slots; REDIS=cluster in the environment runs all tests on one.
ALSO_ON_A_CLUSTER = pytest.mark.parametrize("server", ["standalone", "cluster"], indirect=True)


class Certificates(NamedTuple):
    """Files of an authority of our own, and of a server it vouches for."""

    ca: Path
    certificate: Path
    key: Path

    @property
    def options(self) -> tuple[str, ...]:
        return (
            *("--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.key)),
            *("--tls-ca-cert-file", str(self.ca), "--tls-auth-clients", "no"),
            *("--tls-replication", "yes"),
        )


class CertifiedServer(LocalServer):
    """A server that speaks TLS and nothing else when it has certificates."""

    def __init__(self, binary: str, folder: Path, *options: str, certificates: Certificates | None = None) -> None:
        self._trust = ssl.create_default_context(cafile=str(certificates.ca)) if certificates else None
        super().__init__(binary, folder, *options, *(certificates.options if certificates else ()))

    def listening(self) -> list[str]:
        return super().listening() if self._trust is None else ["--port", "0", "--tls-port", str(self.port)]

    def connect(self) -> socket.socket:
        link = super().connect()
        return link if self._trust is None else self._trust.wrap_socket(link, server_hostname="127.0.0.1")


class Server(CertifiedServer):
    """One server process in a temporary folder; `config` is for what can only be said in a file."""

    def __init__(self, binary: str, *options: str, config: str = "", certificates: Certificates | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="lingua-test-")
        folder = Path(self._temporary.name)
        if config:
            (folder / "server.conf").write_text(config)
            options = ("server.conf", *options)
        try:
            super().__init__(binary, folder, *options, certificates=certificates)
        except BaseException:
            self._temporary.cleanup()
            raise

    def command(self, *words: str | int) -> Any:
        """A Sentinel that makes a server master or replica closes all its connections, ours among them."""
        try:
            return super().command(*words)
        except ConnectionError:
            return super().command(*words)

    def stop(self) -> None:
        self.kill()
        self._temporary.cleanup()


class Cluster(LocalCluster):
    """A local Cluster, perhaps with spare masters without slots, and what tests ask and do."""

    def __init__(
        self,
        binary: str,
        *,
        masters: int = 3,
        replicas: int = 0,
        spares: int = 0,
        node_timeout_ms: int = 15_000,
        options: tuple[str, ...] = (),
        certificates: Certificates | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="lingua-test-")
        self._certificates = certificates
        super().__init__(
            binary,
            Path(self._temporary.name),
            masters=masters,
            replicas=replicas,
            node_timeout_ms=node_timeout_ms,
            options=options,
        )
        self.spares = [self.start_server() for _ in range(spares)]
        if spares:
            self.meet()
            wait_for(self.is_ok, "cluster_state:ok everywhere")

    def new_server(self, binary: str, folder: Path, *options: str) -> LocalServer:
        return CertifiedServer(binary, folder, *options, certificates=self._certificates)

    def owner_of(self, key: str) -> LocalServer:
        """The master that says it serves the key."""
        slot = key_slot(key.encode())
        return next(server for server in self.alive if slot in slots_of(server))

    def pair(self) -> tuple[LocalServer, LocalServer]:
        """A master that has a replica, and that replica, whichever they are by now."""
        for replica in self.alive:
            known = replica.info("replication")
            if known["role"] == "slave":
                return next(s for s in self.servers if str(s.port) == known["master_port"]), replica
        raise LookupError("no server is a replica")

    def command(self, *words: str | int) -> list[Any]:
        """Tell every master."""
        return [server.command(*words) for server in self.alive if server.info("replication")["role"] == "master"]

    def flush(self) -> None:
        self.command("FLUSHALL")

    def errors(self, code: str) -> int:
        return sum(errors(server, code) for server in self.alive)

    def is_ok(self) -> bool:
        return all(is_ok(server) for server in self.alive)

    def stop(self) -> None:
        for server in self.servers:
            server.kill()
        self._temporary.cleanup()


class Sentinels:
    """A master, its replica, and three sentinels that watch them."""

    def __init__(self, binary: str, *, down_after_ms: int = 500, certificates: Certificates | None = None) -> None:
        self.servers: list[Server] = []
        self.sentinels: list[Server] = []
        options = ("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
        try:
            master = start(binary, *options, certificates=certificates)
            self.servers.append(master)
            replica = start(binary, *options, certificates=certificates)
            self.servers.append(replica)
            # Not as an option, or it would begin as a replica again when it was the master and is launched anew.
            replica.command("REPLICAOF", "127.0.0.1", master.port)
            wait_for(lambda: in_step(replica), "a replica in step")
            config = (
                f"sentinel monitor {MASTER_NAME} 127.0.0.1 {master.port} 2\n"
                f"sentinel down-after-milliseconds {MASTER_NAME} {down_after_ms}\n"
                f"sentinel failover-timeout {MASTER_NAME} 5000\n"
            )
            for _ in range(3):
                self.sentinels.append(start(binary, "--sentinel", config=config, certificates=certificates))
            wait_for(lambda: all(self._sees_all(sentinel) for sentinel in self.sentinels), "sentinels that agree")
        except BaseException:
            self.stop()
            raise
        self.hosts = ",".join(sentinel.address for sentinel in self.sentinels)
        self.url = f"redis+sentinel://{self.hosts}/{MASTER_NAME}"

    def pair(self) -> tuple[Server, Server]:
        """The master and the replica, whichever they are by now."""
        master, replica = sorted(self.servers, key=lambda server: server.info("replication")["role"])
        return master, replica

    def command(self, *words: str | int) -> Any:
        """Tell the master."""
        return self.pair()[0].command(*words)

    def flush(self) -> None:
        self.command("FLUSHALL")

    def settle(self) -> None:
        """One master, one replica in step with it, and Sentinels that agree: whatever a test left behind."""
        wait_for(self._is_settled, "one master that all Sentinels name")

    def _is_settled(self) -> bool:
        master, replica = self.pair()
        known = replica.info("replication")
        if known["role"] == "master":
            return False
        named = {self._address(sentinel) for sentinel in self.sentinels}
        return named == {str(master.port)} and known["master_port"] == str(master.port) and in_step(replica)

    @staticmethod
    def _address(sentinel: Server) -> str:
        return str(sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME)[1])

    def demote(self, former: Server, master: Server) -> None:
        """What the Sentinels would do by themselves, about ten seconds later."""
        former.command("REPLICAOF", "127.0.0.1", master.port)
        wait_for(lambda: in_step(former), "a replica in step")

    @staticmethod
    def _sees_all(sentinel: Server) -> bool:
        flat = sentinel.command("SENTINEL", "MASTER", MASTER_NAME)
        seen = dict(zip(flat[::2], flat[1::2], strict=True))
        return (seen["num-slaves"], seen["num-other-sentinels"]) == ("1", "2")

    def stop(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.stop()


def start(binary: str, *options: str, config: str = "", certificates: Certificates | None = None) -> Server:
    return on_free_port(lambda: Server(binary, *options, config=config, certificates=certificates))


def errors(server: LocalServer, code: str) -> int:
    """How often the server has answered with this error."""
    counted = server.info("errorstats").get(f"errorstat_{code}", "count=0")
    return int(counted.removeprefix("count="))


def slots_of(server: LocalServer) -> set[int]:
    """The slots a server says it serves itself."""
    ranges: Iterable[list[Any]] = server.command("CLUSTER", "SLOTS")
    return {slot for first, last, owner, *_ in ranges if owner[1] == server.port for slot in range(first, last + 1)}
