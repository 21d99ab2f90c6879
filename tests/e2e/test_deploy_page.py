"""What docs/deploy.md says of TLS, a private authority and passwords, done word for word with deploy/."""

import asyncio
import base64
import re
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from lingua_sdk.processes import die_with_parent, stop
from tests.e2e.test_proxies import TRUSTING
from tests.support.proxies import DEPLOY, SAMPLES, proxy
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until
from tools import docs

PAGE = docs.DOCS / "deploy.md"
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def block(kind: str, word: str) -> str:
    (found,) = [text for of, text in BLOCKS if of == kind and word in text]
    return found


def run(commands: str, folder: Path) -> None:
    done = subprocess.run(["sh", "-e", "-c", commands], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def with_tls(text: str, name: str, folder: Path) -> str:
    """The commented line in place of the one above it."""
    if name == "nginx":
        text, lines = re.subn(r" listen 5010;\n +# listen 443 ssl; (.*)\n", r" listen 5010 ssl; \1\n", text)
        text = text.replace("/etc/nginx/lingua.", f"{folder}/lingua.")
    else:
        text, lines = re.subn(
            r" bind :5010\n +# bind :443 ssl crt \S+\n", f" bind :5010 ssl crt {folder}/lingua.pem\n", text
        )
    assert lines == 1
    return text


def with_passwords(text: str, name: str, folder: Path) -> str:
    if name == "nginx":
        lines = block("nginx", "auth_basic").replace("/etc/nginx/", f"{folder}/")
        return text.replace("listen 127.0.0.1:5019;\n", f"listen 127.0.0.1:5019;\n{lines}")
    rule = "    " + block("haproxy", "http-request auth")
    return block("haproxy", "userlist") + text.replace("bind 127.0.0.1:5019\n", f"bind 127.0.0.1:5019\n{rule}")


@pytest.mark.parametrize("name", SAMPLES)
async def test_tls_a_private_authority_and_passwords_work_as_the_page_says(
    name: str, server: RedisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(block("sh", "openssl req -x509"), tmp_path)
    run(block("sh", "openssl passwd -apr1"), tmp_path)
    text = (DEPLOY / SAMPLES[name]).read_text("utf-8")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / SAMPLES[name]).write_text(with_passwords(with_tls(text, name, tmp_path), name, tmp_path))
    monkeypatch.setattr("tests.support.proxies.DEPLOY", tmp_path / "deploy")
    monkeypatch.setattr("tests.support.proxies.READY", (200, 401))
    async with serve_process(tmp_path, "--redis-url", server.url, *TRUSTING) as scheduler:
        await until(lambda: scheduler.port, within_s=60)
        async with proxy(name, [scheduler.port] * 3, tmp_path) as ports:
            await passwords_are_asked_for(ports.inside)
            await a_node_comes_through(ports.port, tmp_path, scheduler.port)


async def passwords_are_asked_for(port: int) -> None:
    url = f"http://127.0.0.1:{port}/dashboard"
    async with aiohttp.ClientSession() as http:
        for password, status in (("wrong", 401), ("PASSWORD", 200)):
            told = base64.b64encode(f"anna:{password}".encode()).decode()
            async with http.get(url, headers={"Authorization": f"Basic {told}"}) as response:
                assert response.status == status
        async with http.get(url) as response:
            assert response.status == 401


async def a_node_comes_through(port: int, folder: Path, direct: int) -> None:
    """A node trusts the private authority by its environment alone."""
    with (folder / "node.log").open("wb") as log:
        node = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lingua_scheduler", "node", "--engine", "sim", "--id", "node-7"),
            *("--url", f"wss://localhost:{port}"),
            env={"SSL_CERT_FILE": str(folder / "ca.crt"), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,
        )
    try:
        await until(lambda: is_connected(direct), 60, what="the node is connected over TLS")
    finally:
        await stop(node, 15.0)


async def is_connected(port: int) -> bool:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/v1/nodes/node-7") as response:
        return response.status == 200


def test_several_instances_are_started_with_the_proxy_as_a_trusted_one() -> None:
    """Otherwise the log warns (proxy.not_trusted), and clients are not limited one by one."""
    (command,) = re.findall(r"^3\. .*?`lingua (serve [^`]+)`", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    words = [sys.executable, "-m", "lingua_scheduler", *command.split(), "--print-config"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in printed.splitlines() if line.startswith("server.trusted_proxies ")]
    assert "10.0.0." in line
