"""A Redis Cluster on loopback ports, to try one or to test against; its servers end when we do."""

import contextlib
import random
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import hiredis

from lingua_scheduler.store.servers.layout import SLOTS
from lingua_sdk.processes import die_with_parent

T = TypeVar("T")

FORM_LIMIT_S = 30.0
POLL_S = 0.01
STOP_GRACE_S = 5.0
ASK_LIMIT_S = 10.0
PORT_TRIES = 5
# Below the range from which the kernel lends ports, and so is the port of the cluster bus.
PORTS = range(11_000, 22_000)
BUS_PORT_OFFSET = 10_000


class LocalServerError(Exception):
    """A server does not start or does not answer; the message says which and where its log is."""


class LocalServer:
    """One server process on a free loopback port, in a folder of its own."""

    def __init__(self, binary: str, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._words = [binary, *options, *self.listening(), "--bind", "127.0.0.1", "--logfile", "server.log"]
        self.launch()

    def listening(self) -> list[str]:
        return ["--port", str(self.port)]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=ASK_LIMIT_S)

    def launch(self) -> None:
        """Start it, or start it again after it ended: on the same port."""
        self._process = subprocess.Popen(
            self._words,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in our terminal is for us alone
            preexec_fn=die_with_parent,  # noqa: PLW1509 - no other thread holds a lock it needs
        )
        try:
            wait_for(lambda: self.answers() or not self.is_running, f"an answer on port {self.port}")
        except BaseException:
            self.kill()
            raise
        if not self.is_running:
            raise LocalServerError(
                f"the server on port {self.port} ended with exit code {self._process.returncode}; "
                f"{self.folder / 'server.log'} says why"
            )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def command(self, *words: str | int) -> Any:
        """One command and its answer, over a connection of its own; the server's error is raised."""
        reader = hiredis.Reader(encoding="utf-8")
        with self.connect() as link:
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
        except (OSError, hiredis.ReplyError):
            return False

    def info(self, section: str) -> dict[str, str]:
        return dict(line.split(":", 1) for line in self.command("INFO", section).splitlines() if ":" in line)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Ask it to end; `wait` sees to it that it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def wait(self) -> None:
        try:
            self._process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()


class LocalCluster:
    """Masters that share the slots evenly, and replicas dealt out to them in turn. Nothing is kept on disk."""

    def __init__(
        self,
        binary: str,
        folder: Path,
        *,
        masters: int = 3,
        replicas: int = 0,
        node_timeout_ms: int = 15_000,
        options: tuple[str, ...] = (),
        on_step: Callable[[str], None] | None = None,
    ) -> None:
        self._binary = binary
        self._folder = folder
        self._options = (
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms)),
            *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
            *("--save", "", "--appendonly", "no"),
            *options,
        )
        say = on_step or (lambda _: None)
        self.servers: list[LocalServer] = []
        try:
            for number in range(masters + replicas):
                say(f"starting server {number + 1} of {masters + replicas}")
                self.start_server()
            self.masters = self.servers[:masters]
            self.replicas = self.servers[masters:]
            say("sharing the slots")
            self._form()
            say("waiting until all of them agree")
            self._settle()
        except BaseException:
            self.stop()
            raise

    @property
    def hosts(self) -> str:
        return ",".join(server.address for server in self.servers)

    @property
    def url(self) -> str:
        return f"redis+cluster://{self.hosts}"

    @property
    def alive(self) -> list[LocalServer]:
        return [server for server in self.servers if server.is_running]

    def start_server(self) -> LocalServer:
        """One more server, in no cluster yet."""
        folder = self._folder / f"server-{len(self.servers) + 1}"
        server = on_free_port(lambda: self.new_server(self._binary, folder, *self._options))
        self.servers.append(server)
        return server

    def new_server(self, binary: str, folder: Path, *options: str) -> LocalServer:
        return LocalServer(binary, folder, *options)

    def meet(self) -> None:
        """Make every server known to every other."""
        for server in self.servers[1:]:
            self.servers[0].command("CLUSTER", "MEET", "127.0.0.1", server.port)
        everybody = {node_id(server) for server in self.servers}
        wait_for(lambda: all(everybody <= known_to(server) for server in self.servers), "servers that know each other")

    def _form(self) -> None:
        for number, master in enumerate(self.masters):
            master.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            first, last = (SLOTS * share // len(self.masters) for share in (number, number + 1))
            master.command("CLUSTER", "ADDSLOTS", *range(first, last))
        self.meet()
        for number, replica in enumerate(self.replicas):
            replica.command("CLUSTER", "REPLICATE", node_id(self.masters[number % len(self.masters)]))

    def _settle(self) -> None:
        wait_for(lambda: all(is_ok(server) for server in self.servers), "cluster_state:ok everywhere")
        wait_for(lambda: all(in_step(replica) for replica in self.replicas), "replicas in step")

    def stop(self) -> None:
        for server in self.servers:
            server.end()
        for server in self.servers:
            server.wait()


def on_free_port(make: Callable[[], T]) -> T:
    """Start a server; retried if another program took the port in the meantime."""
    for _ in range(PORT_TRIES - 1):
        with contextlib.suppress(LocalServerError):
            return make()
    return make()


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


def cluster_info(server: LocalServer) -> dict[str, str]:
    return dict(line.split(":", 1) for line in server.command("CLUSTER", "INFO").splitlines())


def is_ok(server: LocalServer) -> bool:
    return cluster_info(server)["cluster_state"] == "ok"


def in_step(replica: LocalServer) -> bool:
    return replica.info("replication").get("master_link_status") == "up"


def known_to(server: LocalServer) -> set[str]:
    """The ids a server knows; one that is still shaking hands goes by a made-up one."""
    return {row.split(" ", 1)[0] for row in server.command("CLUSTER", "NODES").splitlines()}


def node_id(server: LocalServer) -> str:
    return str(server.command("CLUSTER", "MYID"))


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + FORM_LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise LocalServerError(f"not within {FORM_LIMIT_S:g} s: {what}")
        time.sleep(POLL_S)
