"""Commands in forks of an interpreter that has imported them, which is nearly all that a start costs.

Run as a program it is that interpreter, one for each test process. Tests of how a command starts and ends run it as a
person would (`serve_command`); others need only a process of its own."""

import asyncio
import atexit
import fcntl
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import termios
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

from lingua_scheduler.cli.main import WHERE, main
from lingua_sdk.processes import die_with_parent

_ROOT = Path(__file__).parents[2]
_LINE_BYTES = 1 << 20
# What a scheduler imports when it has read its settings, and what nodes of tests import.
_LATER = ("lingua_scheduler.cli.serving.single", "tests.support.crowds")


class ForkedProcess(asyncio.subprocess.Process):
    """A child of that interpreter, which says when it has ended."""

    def __init__(self, pid: int, streams: "_Streams", said: asyncio.StreamReader, link: asyncio.StreamWriter) -> None:
        # Not those of the base class, which wants a child of this process.
        self.pid = pid
        self.stdin, self.stdout, self.stderr = streams.stdin, streams.stdout, streams.stderr
        self._code: int | None = None
        self._end = asyncio.create_task(self._await_end(said, link))

    async def _await_end(self, said: asyncio.StreamReader, link: asyncio.StreamWriter) -> int:
        self._code = int(await said.readline())
        link.close()
        return self._code

    @property
    def returncode(self) -> int | None:
        return self._code

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    def send_signal(self, signal: int) -> None:
        if self._code is None:
            os.kill(self.pid, signal)

    def terminate(self) -> None:
        self.send_signal(SIGTERM)

    def kill(self) -> None:
        self.send_signal(SIGKILL)

    async def communicate(self, input: bytes | bytearray | memoryview | None = None) -> tuple[bytes, bytes]:  # noqa: A002 - the base class's
        _, out, err, _ = await asyncio.gather(
            self._feed(input), _all_of(self.stdout), _all_of(self.stderr), self.wait()
        )
        return out, err

    async def _feed(self, input: bytes | bytearray | memoryview | None) -> None:  # noqa: A002
        if self.stdin is None:
            return
        # It may end without having read all.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.stdin.write(input or b"")
            await self.stdin.drain()
        self.stdin.close()


async def _all_of(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()


class _OutputProtocol(asyncio.StreamReaderProtocol):
    def eof_received(self) -> bool:
        super().eof_received()
        return False  # close our end too


class _Streams:
    """Standard streams of a command: of those asked for as `PIPE` our ends, and of all of them its own."""

    def __init__(self) -> None:
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self.theirs: list[int] = []
        self._closing = ExitStack()

    async def open(self, stdin: int, stdout: int, stderr: int) -> None:
        if stdin == PIPE:
            # As asyncio itself does it.
            ours, theirs = socket.socketpair()
            self._closing.callback(theirs.close)
            _, self.stdin = await asyncio.open_connection(sock=ours)
            self.theirs.append(theirs.fileno())
        else:
            self.theirs.append(self._given(stdin, os.O_RDONLY))
        self.stdout = await self._output(stdout)
        self.stderr = await self._output(stderr)

    async def _output(self, asked: int) -> asyncio.StreamReader | None:
        if asked != PIPE:
            self.theirs.append(self.theirs[1] if asked == STDOUT else self._given(asked, os.O_WRONLY))
            return None
        ours, theirs = os.pipe()
        self._closing.callback(os.close, theirs)
        self.theirs.append(theirs)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: _OutputProtocol(reader), os.fdopen(ours, "rb", 0))
        return reader

    def _given(self, asked: int, way: int) -> int:
        if asked != DEVNULL:
            return asked
        opened = os.open(os.devnull, way)
        self._closing.callback(os.close, opened)
        return opened

    def close_theirs(self) -> None:
        self._closing.close()


async def fork_command(
    *arguments: str, stdin: int = DEVNULL, stdout: int, stderr: int, environment: Mapping[str, str] | None = None
) -> ForkedProcess:
    """`lingua` with these arguments; the streams are as for `asyncio.create_subprocess_exec`."""
    return await fork_module("lingua_scheduler", arguments, (stdin, stdout, stderr), environment or os.environ)


async def fork_module(
    module: str,
    arguments: Sequence[str],
    streams: tuple[int, int, int],
    environment: Mapping[str, str],
    *,
    is_on_terminal: bool = False,
) -> ForkedProcess:
    """As `python -m module`. `is_on_terminal`: as a shell would start it, the first stream is its terminal."""
    opened = _Streams()
    ours, theirs = socket.socketpair()
    try:
        await opened.open(*streams)
        socket.send_fds(_server(), [b"."], [theirs.fileno(), *opened.theirs])
    finally:
        theirs.close()
        opened.close_theirs()
    said, link = await asyncio.open_connection(sock=ours)
    request = {
        "words": [module, *arguments],
        "environment": dict(environment),
        "folder": str(Path.cwd()),
        "path": sys.path,
        "is_on_terminal": is_on_terminal,
    }
    link.write(json.dumps(request).encode() + b"\n")
    return ForkedProcess(int(await said.readline()), opened, said, link)


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            preexec_fn=die_with_parent,  # noqa: PLW1509 - no other thread holds a lock it needs
        )

    @atexit.register
    def stop() -> None:
        ours.close()
        process.wait()

    return ours


class _Server:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._callers: dict[int, socket.socket] = {}
        # A child's end wakes the loop by a byte in this pipe.
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno())

    def serve(self) -> Any:
        """Returns what a child shall run, in that child."""
        with selectors.DefaultSelector() as ready:
            ready.register(self._requests, selectors.EVENT_READ)
            ready.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is self._woken:
                        self._reap()
                    elif (request := self._fork()) is not None:
                        return request

    def _reap(self) -> None:
        self._woken.recv(4096)
        while self._callers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._callers.pop(pid) as caller:
                caller.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))

    def _fork(self) -> Any:
        _, descriptors, _, _ = socket.recv_fds(self._requests, 1, 4)
        if not descriptors:
            raise SystemExit  # the test process is gone
        caller, streams = socket.socket(fileno=descriptors[0]), descriptors[1:]
        pid = os.fork()
        if pid:
            for one in streams:
                os.close(one)
            caller.sendall(b"%d\n" % pid)
            self._callers[pid] = caller
            return None
        self._become_child(streams)
        with caller, caller.makefile() as lines:
            return json.loads(lines.readline(_LINE_BYTES))

    def _become_child(self, streams: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent()
        for one in (self._requests, self._woken, self._waker, *self._callers.values()):
            one.close()
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
            os.close(stream)


def _open_streams() -> None:
    """As the interpreter does when it starts: terminals, pipes and files are written to in different ways."""
    encoding = sys.stdout.encoding
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115 - they stay open to the end
    sys.stdout = open(1, "w", encoding=encoding, errors=sys.stdout.errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)  # noqa: SIM115


def _run(requests: int) -> None:
    for command in WHERE:
        _ = main.commands[command]
    for module in _LATER:
        import_module(module)
    # Or each fork would go through all of it, and so copy it.
    gc.collect()
    gc.freeze()
    request = _Server(socket.socket(fileno=requests)).serve()
    if request["is_on_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    _open_streams()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.path[:] = request["path"]
    sys.argv = request["words"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(int(sys.argv[1]))
