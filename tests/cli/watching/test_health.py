"""`lingua health`: what restarts a container, or takes traffic from it, is told no more and no less than that."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.options import DEFAULT_ADDRESS, Exit
from lingua_scheduler.cli.watching import health
from lingua_scheduler.store.servers.embedded import shipped_binary
from lingua_scheduler.store.servers.local_cluster import free_port
from tests.support.certificates import Authority
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

Serving = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def asked(*arguments: str, **environment: str) -> Result:
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("LINGUA_")}
    runner = CliRunner(env=clean | environment)
    return await asyncio.to_thread(runner.invoke, main, ["health", *arguments])


@asynccontextmanager
async def server_that(serves: Serving) -> AsyncIterator[str]:
    """It is over when its one caller has been served."""
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await serves(reader, writer)
            writer.close()
            await writer.wait_closed()
        served.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        await asyncio.wait_for(served.wait(), 30)
        await asyncio.sleep(0)


def saying(answer: bytes) -> Serving:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return serve


async def test_a_scheduler_that_runs_is_alive_and_ready(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _):
        for url in (f"127.0.0.1:{scheduler.port}", f"http://127.0.0.1:{scheduler.port}/ws/node"):
            for flags, word in (((), "alive"), (("--ready",), "ready")):
                found = await asked("--url", url, *flags)
                assert (found.exit_code, found.stdout) == (0, f"{word}\n"), found.output


async def test_without_redis_it_is_alive_and_not_ready_and_says_why() -> None:
    redis = RedisProcess(str(shipped_binary()))
    try:
        async with scheduler_on(redis.url) as (scheduler, store):
            url = f"127.0.0.1:{scheduler.port}"
            redis.kill()
            await until(lambda: not store.is_ready, 30)
            assert (await asked("--url", url)).exit_code == 0
            found = await asked("--url", url, "--ready")
            assert found.exit_code == Exit.SCHEDULER
            assert found.stderr == f"lingua: the scheduler at {url} says 503: Redis does not answer\n"
    finally:
        redis.stop()


async def test_nothing_there_is_no_answer_with_the_next_step() -> None:
    found = await asked("--url", f"127.0.0.1:{free_port()}")
    assert found.exit_code == Exit.SCHEDULER
    assert "Connection refused" in found.stderr
    assert "start one with: lingua serve" in found.stderr


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH_9\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 OK\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\nno \x1b[31mserver", "says 502: no  [31mserver"),
        (b'HTTP/1.1 503 No\r\n\r\n{"ready": false, "reasons": ["a", "b"]}', "says 503: a; b"),
        (b'HTTP/1.1 421 No\r\n\r\n{"error": "MISDIRECTED", "detail": "unknown host"}', "says 421: unknown host"),
        (b"HTTP/1.1 500 No\r\n\r\n[]", "says 500: []"),
        (b"HTTP/1.1 500 No\r\n\r\n", "says 500: no reason"),
    ],
)
async def test_what_is_no_healthy_scheduler_is_named(answer: bytes, words: str) -> None:
    async with server_that(saying(answer)) as url:
        found = await asked("--url", url)
    assert found.exit_code == Exit.SCHEDULER
    assert words in found.stderr


async def test_an_answer_that_never_ends_is_cut() -> None:
    async with server_that(saying(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 10 * health.MAX_ANSWER_BYTES)) as url:
        assert (await asked("--url", url)).exit_code == 0


async def test_silence_and_single_bytes_end_with_the_timeout() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not (reader.at_eof() or writer.is_closing()):
            writer.write(b"H")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with server_that(drip) as url:
        found = await asked("--url", url, "--timeout", "0.3")
    assert found.exit_code == Exit.SCHEDULER
    assert "timed out" in found.stderr


async def test_certificates_are_not_verified(server: RedisProcess, tmp_path: Path) -> None:
    shown = Authority(tmp_path).serve()
    files = {"tls_cert_file": str(shown.cert), "tls_key_file": str(shown.key)}
    async with scheduler_on(server.url, **{f"server__{name}": path for name, path in files.items()}) as (scheduler, _):
        # No authority that this machine trusts has issued it.
        assert (await asked("--url", f"https://127.0.0.1:{scheduler.port}")).exit_code == 0
        of_settings = {f"LINGUA_SERVER_{name.upper()}": path for name, path in files.items()}
        found = await asked(LINGUA_SERVER_PORT=str(scheduler.port), **of_settings)
        assert found.exit_code == 0, found.output


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "http://127.0.0.1:5010"),
        ({"LINGUA_SERVER_HOST": "0.0.0.0", "LINGUA_SERVER_PORT": "7001"}, "http://127.0.0.1:7001"),
        ({"LINGUA_SERVER_HOST": "::"}, "http://[::1]:5010"),
        ({"LINGUA_SERVER_HOST": "10.0.0.5"}, "http://10.0.0.5:5010"),
        ({"LINGUA_SERVER_INTERNAL_PORT": "5011", "LINGUA_SERVER_INTERNAL_HOST": "0.0.0.0"}, "http://127.0.0.1:5011"),
    ],
)
def test_without_an_address_it_asks_the_scheduler_of_its_settings(
    settings: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("LINGUA_")]:
        monkeypatch.delenv(name)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    asked_at: list[str] = []

    def ask(url: str, _: float) -> health.HealthAnswer:
        asked_at.append(url)
        return health.HealthAnswer(200, "OK")

    monkeypatch.setattr(health, "ask", ask)
    assert CliRunner().invoke(main, ["health"]).exit_code == 0
    assert asked_at == [f"{address}/health"]


async def test_settings_of_a_file_count_and_bad_ones_are_named(tmp_path: Path) -> None:
    file = tmp_path / "lingua.toml"
    port = free_port()
    file.write_text(f"[server]\nport = {port}\n")
    assert f"127.0.0.1:{port}" in (await asked(LINGUA_CONFIG=str(file))).stderr
    for arguments, environment in (((), {"LINGUA_SERVER_PORT": "many"}), (("--url", "redis://db"), {})):
        found = await asked(*arguments, **environment)
        assert found.exit_code == Exit.SETTINGS
        assert found.stderr.startswith("lingua: ")


def test_what_it_repeats_is_what_other_commands_use() -> None:
    """It does not import their modules, which would take longer than all it does."""
    assert (health.SETTINGS, health.SCHEDULER) == (Exit.SETTINGS, Exit.SCHEDULER)
    assert DEFAULT_ADDRESS.replace("ws:", "http:") == health.ADDRESS


def test_it_imports_nothing_heavy() -> None:
    heavy = {"aiohttp", "asyncio", "msgspec", "redis", "rich", "ssl", "uvloop", "lingua_scheduler.settings"}
    program = f"""
import atexit, sys
atexit.register(lambda: print("heavy:", *sorted({heavy!r} & set(sys.modules))))
from lingua_scheduler.cli.main import main
main(["health", "--url", "127.0.0.1:{free_port()}"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (Exit.SCHEDULER, "heavy:\n"), done.stderr
