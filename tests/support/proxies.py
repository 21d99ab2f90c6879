"""The proxies of deploy/, started with the very files people are told to use."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.processes import die_with_parent, stop
from tests.support.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
SAMPLES = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}
# What the proxy answers to /health/ready on the operators' listener when an instance is behind it.
READY: tuple[int, ...] = (200,)
Command = Callable[[str, Path, Path], list[str]]
COMMANDS: dict[str, Command] = {
    "haproxy": lambda program, config, _: [program, "-f", str(config)],
    "nginx": lambda program, config, folder: [
        *(program, "-c", str(config), "-p", str(folder), "-e", str(folder / "error.log")),
        *("-g", f"daemon off; pid {folder / 'nginx.pid'}; user root;" if is_root() else "daemon off;"),
    ],
}


def is_root() -> bool:
    return Path("/proc/self").stat().st_uid == 0


class Proxy(NamedTuple):
    # For everybody, and for operators.
    port: int
    inside: int


def sample(name: str, ports: Proxy, instances: list[int], folder: Path) -> Path:
    """The sample as it is, with the addresses of this test."""
    text = (DEPLOY / SAMPLES[name]).read_text()
    for number, instance in enumerate(instances, start=1):
        assert f"10.0.0.{number}:5010" in text
        text = text.replace(f"10.0.0.{number}:5010", f"127.0.0.1:{instance}")
    # As many as it says takes more open files than every machine lends.
    text = text.replace("maxconn 9000", "maxconn 100")
    text, listening = re.subn(r"^(\s+(?:bind :|listen ))5010", rf"\g<1>{ports.port}", text, flags=re.MULTILINE)
    assert listening == 1
    assert "127.0.0.1:5019" in text
    text = text.replace("127.0.0.1:5019", f"127.0.0.1:{ports.inside}")
    if name == "nginx":
        # Its own folders would be those of the system.
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join(f"    {kind}_temp_path {folder / kind};\n" for kind in kinds)
        text = text.replace("http {\n", f"http {{\n    access_log off;\n{paths}")
    config = folder / SAMPLES[name]
    config.write_text(text)
    return config


@asynccontextmanager
async def proxy(name: str, instances: list[int], folder: Path, control: Path | None = None) -> AsyncIterator[Proxy]:
    """HAProxy takes commands at the Unix socket `control`."""
    # Debian keeps both where only root looks.
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"{name} is not on this machine")
    ports = Proxy(free_port(), free_port())
    config = sample(name, ports, instances, folder)
    if control is not None:
        config.write_text(config.read_text().replace("global\n", f"global\n    stats socket {control} level admin\n"))
    with (folder / "proxy.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *COMMANDS[name](program, config, folder), stdout=log, stderr=log, preexec_fn=die_with_parent
        )
    try:
        await until(lambda: is_ready(ports.inside), 30, what=f"{name} answers")
        yield ports
    finally:
        await stop(process, 5.0)


async def is_ready(port: int) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/health/ready") as response:
            return response.status in READY
    except aiohttp.ClientError:
        return False
