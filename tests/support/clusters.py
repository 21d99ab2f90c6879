"""Real Redis Clusters and Sentinels for tests, on loopback ports, without persistence; they end when we do."""

import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import hiredis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS
from redis.crc import key_slot

from lingua_scheduler.processes import die_with_parent

FORM_LIMIT_S = 30.0
# Below the range from which the kernel lends ports, and so is the port of the cluster bus.
PORTS = range(11_000, 22_000)
BUS_PORT_OFFSET = 10_000
MASTER_NAME = "lingua"


class Server:
    """One server process on a loopback port."""

    def __init__(self, binary: str, *options: str, config: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lingua-test-")
        if config:
            Path(self._folder.name, "server.conf").write_text(config)
        self.port = free_port()
        files = ["server.conf"] if config else []
        self._words = [binary, *files, "--port", str(self.port), "--bind", "127.0.0.1", *options]
        self.launch()

    def launch(self) -> None:
        """Start it, or start it again after a kill: on the same port, without its data."""
        self._process = subprocess.Popen(
            self._words,
            cwd=self._folder.name,
            stdout=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - no other thread holds a lock it needs
        )
        wait_for(lambda: self.answers() or not self.is_running, f"an answer on port {self.port}")
        if not self.is_running:
            raise OSError(f"{self._words} ended with {self._process.returncode}; its port may have been taken")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def command(self, *words: str | int) -> Any:
        """One command and its answer, over a connection of its own; the server's error is raised."""
        reader = hiredis.Reader(encoding="utf-8")
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as link:
            link.sendall(hiredis.pack_command(words))  # type: ignore[arg-type]  # its stub says one-tuple
            while (reply := reader.gets()) is False:
                received = link.recv(65_536)
                if not received:
                    raise ConnectionError(f"{self.address} hung up")
                reader.feed(received)
        if isinstance(reply, hiredis.ReplyError):
            raise reply
        return reply

    def answers(self) -> bool:
        try:
            return bool(self.command("PING") == "PONG")
        except OSError:
            return False

    def info(self, section: str) -> dict[str, str]:
        return dict(line.split(":", 1) for line in self.command("INFO", section).splitlines() if ":" in line)

    def errors(self, code: str) -> int:
        """How often the server has answered with this error."""
        counted = self.info("errorstats").get(f"errorstat_{code}", "count=0")
        return int(counted.removeprefix("count="))

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self.kill()
        self._folder.cleanup()


class Cluster:
    """Masters that share the slots evenly, a replica for the first few, and spare masters without slots."""

    def __init__(
        self, binary: str, *, masters: int = 3, replicas: int = 0, spares: int = 0, node_timeout_ms: int = 15_000
    ) -> None:
        options = (
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms)),
            *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
            *("--save", "", "--appendonly", "no"),
        )
        self.servers: list[Server] = []
        try:
            for _ in range(masters + replicas + spares):
                self.servers.append(start(binary, *options))
            self.masters = self.servers[:masters]
            self.replicas = self.servers[masters : masters + replicas]
            self.spares = self.servers[masters + replicas :]
            self._form()
        except BaseException:
            self.stop()
            raise
        self.hosts = ",".join(server.address for server in self.servers)
        self.url = f"redis+cluster://{self.hosts}"

    def _form(self) -> None:
        for number, master in enumerate(self.masters):
            master.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            first, last = (SLOTS * share // len(self.masters) for share in (number, number + 1))
            master.command("CLUSTER", "ADDSLOTS", *range(first, last))
        for server in self.servers[1:]:
            self.servers[0].command("CLUSTER", "MEET", "127.0.0.1", server.port)
        everybody = str(len(self.servers))
        wait_for(
            lambda: all(cluster_info(server)["cluster_known_nodes"] == everybody for server in self.servers),
            "servers that know each other",
        )
        for master, replica in zip(self.masters, self.replicas, strict=False):
            replica.command("CLUSTER", "REPLICATE", node_id(master))
        wait_for(lambda: all(is_ok(server) for server in self.servers), "cluster_state:ok everywhere")
        wait_for(lambda: all(in_step(replica) for replica in self.replicas), "replicas in step")

    def owner_of(self, key: str) -> Server:
        """The master that says it serves the key."""
        slot = key_slot(key.encode())
        return next(server for server in self._alive() if slot in slots_of(server))

    def pair(self) -> tuple[Server, Server]:
        """A master that has a replica, and that replica, whichever they are by now."""
        for replica in self._alive():
            known = replica.info("replication")
            if known["role"] == "slave":
                return next(s for s in self.servers if str(s.port) == known["master_port"]), replica
        raise LookupError("no server is a replica")

    def command(self, *words: str | int) -> list[Any]:
        """Tell every master."""
        return [server.command(*words) for server in self._alive() if server.info("replication")["role"] == "master"]

    def flush(self) -> None:
        self.command("FLUSHALL")

    def errors(self, code: str) -> int:
        return sum(server.errors(code) for server in self._alive())

    def is_ok(self) -> bool:
        return all(is_ok(server) for server in self._alive())

    def _alive(self) -> list[Server]:
        return [server for server in self.servers if server.is_running]

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


class Sentinels:
    """A master, its replica, and three sentinels that watch them."""

    def __init__(self, binary: str, *, down_after_ms: int = 500) -> None:
        self.servers: list[Server] = []
        self.sentinels: list[Server] = []
        options = ("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
        try:
            master = start(binary, *options)
            self.servers.append(master)
            replica = start(binary, *options)
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
                self.sentinels.append(start(binary, "--sentinel", config=config))
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


def start(binary: str, *options: str, config: str = "") -> Server:
    """A server on a port of its own, even when somebody else took the first one we thought was free."""
    for _ in range(5):
        try:
            return Server(binary, *options, config=config)
        except OSError as error:
            failure = error
    raise failure


def free_port() -> int:
    while True:
        port = random.choice(PORTS)
        if is_free(port) and is_free(port + BUS_PORT_OFFSET):
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def cluster_info(server: Server) -> dict[str, str]:
    return dict(line.split(":", 1) for line in server.command("CLUSTER", "INFO").splitlines())


def is_ok(server: Server) -> bool:
    return cluster_info(server)["cluster_state"] == "ok"


def in_step(replica: Server) -> bool:
    return replica.info("replication").get("master_link_status") == "up"


def node_id(server: Server) -> str:
    return str(server.command("CLUSTER", "MYID"))


def slots_of(server: Server) -> set[int]:
    """The slots a server says it serves itself."""
    ranges: Iterable[list[Any]] = server.command("CLUSTER", "SLOTS")
    return {slot for first, last, owner, *_ in ranges if owner[1] == server.port for slot in range(first, last + 1)}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + FORM_LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {FORM_LIMIT_S:g} s: {what}")
        time.sleep(0.01)
