"""Errors on the way to a scheduler: each blames the right thing."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.scheduler_access import addressed, node_command

SCHEDULER, SETTINGS = 5, 2


async def said(*arguments: str) -> tuple[int, str]:
    """In a thread: a command has an event loop of its own."""
    found = await asyncio.to_thread(CliRunner().invoke, main, list(arguments))
    return found.exit_code, found.output


@asynccontextmanager
async def stranger(context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A web server that is no scheduler."""
    runner = web.AppRunner(web.Application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.fixture
def self_signed(tmp_path: Path) -> ssl.SSLContext:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "1"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


COMMANDS = [("status",), ("alarms",), ("events", "--once"), ("load", "--seconds", "1")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_nobody_is_there(command: tuple[str, ...], unused_tcp_port: int) -> None:
    code, words = await said(*command, "--url", f"127.0.0.1:{unused_tcp_port}")
    assert code == SCHEDULER
    assert "no scheduler answers" in words
    assert "lingua serve" in words


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_a_host_name_that_nobody_knows(command: tuple[str, ...]) -> None:
    code, words = await said(*command, "--url", "scheduler.invalid:5010")
    assert (code, "the host name scheduler.invalid is unknown" in words) == (SCHEDULER, True), words
    assert "lingua serve" not in words


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_a_certificate_that_is_not_trusted(command: tuple[str, ...], self_signed: ssl.SSLContext) -> None:
    async with stranger(self_signed) as port:
        code, words = await said(*command, "--url", f"https://127.0.0.1:{port}")
        assert (code, "its certificate is not trusted" in words) == (SCHEDULER, True), words
        assert "SSL_CERT_FILE" in words


async def test_the_file_of_authorities_does_not_exist(
    self_signed: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent/ca.crt")
    async with stranger(self_signed) as port:
        code, words = await said("status", "--url", f"https://127.0.0.1:{port}")
        assert code == SCHEDULER
        assert "SSL_CERT_FILE names /nonexistent/ca.crt, which cannot be read (No such file or directory)" in words


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_https_where_http_is_spoken(command: tuple[str, ...]) -> None:
    async with stranger() as port:
        code, words = await said(*command, "--url", f"https://127.0.0.1:{port}")
        assert (code, "http against https" in words) == (SCHEDULER, True), words


async def test_a_server_that_is_no_scheduler() -> None:
    async with stranger() as port:
        code, words = await said("status", "--url", f"127.0.0.1:{port}")
        assert (code, "not a scheduler" in words) == (SCHEDULER, True), words


def test_two_ways_to_name_a_scheduler_exclude_each_other(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["status", "--url", "127.0.0.1:1", "--data-dir", str(tmp_path)])
    assert (found.exit_code, "exclude each other" in found.output) == (SETTINGS, True)
    found = CliRunner().invoke(main, ["nodes", "--url", "127.0.0.1:1", "--data-dir", str(tmp_path)])
    assert (found.exit_code, "excludes" in found.output) == (SETTINGS, True)


def test_a_node_id_that_is_none() -> None:
    found = CliRunner().invoke(main, ["node", "--engine", "sim", "--id", "a b"])
    assert (found.exit_code, "--id 'a b' cannot be a node id" in found.output) == (SETTINGS, True)


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("ws://127.0.0.1:5010", "lingua node"),
        ("http://127.0.0.1:5010/", "lingua node"),
        ("127.0.0.1:21030", "lingua node --url ws://127.0.0.1:21030"),
        ("https://a.example/base", "lingua node --url wss://a.example/base"),
    ],
)
def test_a_node_is_started_with_the_address_unless_it_is_the_default(url: str, command: str) -> None:
    assert node_command(url) == command
    told = "start one with: lingua node --languages en,ko; lingua node-info and lingua nodes are others"
    assert addressed(told, url) == told.replace("lingua node ", f"{command} ")
