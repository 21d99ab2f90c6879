"""Nodes in processes of their own, with simulated or with real engines."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lingua_sdk.processes import die_with_parent, stop


@asynccontextmanager
async def node_process(port: int, *arguments: str) -> AsyncIterator[None]:
    """`lingua node`, started as a person would."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "lingua_scheduler", "node", "--url", f"127.0.0.1:{port}", *arguments),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(os.environ),
        preexec_fn=die_with_parent,
    )
    try:
        yield
    finally:
        await stop(process, 15.0)


async def skip_without_engines() -> None:
    """Unless real engines translate English to Portuguese on this machine."""
    listing = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lingua_scheduler", "node", "--list", "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaint = await listing.communicate()
    pairs = json.loads(output)["pairs"] if output.startswith(b"{") else []
    if not any((pair["from"], pair["to"]) == ("en", "pt") for pair in pairs):
        pytest.skip(f"no engines for English to Portuguese: {complaint.decode().strip().splitlines()[-1]}")
