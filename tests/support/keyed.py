"""Commands that make and use keys, against a scheduler that asks for one."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_sdk.processes import die_with_parent, stop
from tests.support.desks import KEYRING
from tests.support.forked import fork_command
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import PATIENCE_S

CLEAN: dict[str, str | None] = dict.fromkeys(("LINGUA_KEY", "LINGUA_KEY_FILE", "LINGUA_URL", "LINGUA_CONFIG"))


async def lingua(*arguments: str, stdin: str = "", **environment: str) -> Result:
    """In a thread: a command has an event loop of its own."""
    runner = CliRunner(env={**CLEAN, "COLUMNS": "200", **environment})
    return await asyncio.to_thread(runner.invoke, main, arguments, stdin)


async def keys(server: RedisProcess, *arguments: str) -> Result:
    return await lingua("keys", *arguments, "--redis-url", server.url)


async def created(server: RedisProcess, *arguments: str) -> dict[str, Any]:
    made = await keys(server, "create", *arguments, "--json")
    assert made.exit_code == 0, made.output
    told: dict[str, Any] = json.loads(made.stdout)
    return told


async def ended(*arguments: str, **environment: str) -> tuple[int | None, str]:
    """As a process of its own, for commands that handle signals: how it ended, and both its outputs."""
    told = {name: value for name, value in os.environ.items() if name not in CLEAN} | environment
    if "SSL_CERT_FILE" in environment:
        # aiohttp reads it when it is imported, which a fork has done before.
        words = (sys.executable, "-m", "lingua_scheduler", *arguments)
        process = await asyncio.create_subprocess_exec(
            *words, stdout=PIPE, stderr=STDOUT, env=told, preexec_fn=die_with_parent
        )
    else:
        process = await fork_command(*arguments, stdout=PIPE, stderr=STDOUT, environment=told)
    try:
        async with asyncio.timeout(PATIENCE_S):
            output, _ = await process.communicate()
    finally:
        await stop(process, 5.0)
    return process.returncode, output.decode()


@asynccontextmanager
async def guarded(server: RedisProcess) -> AsyncIterator[str]:
    """The address of a scheduler that lets no caller in without a key."""
    async with scheduler_on(server.url, auth__mode="required", auth__refresh_ms=60_000) as (scheduler, _):
        yield f"ws://127.0.0.1:{scheduler.port}"


@asynccontextmanager
async def minting(server: RedisProcess) -> AsyncIterator[str]:
    """The address of a scheduler with a cluster key, which lets no caller in without a key."""
    async with scheduler_on(server.url, None, KEYRING, auth__mode="required") as (scheduler, _):
        yield f"ws://127.0.0.1:{scheduler.port}"


def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose credentials are in this folder."""
    return {"XDG_CONFIG_HOME": str(tmp_path)}
