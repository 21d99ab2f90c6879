"""Instances and nodes of two adjacent releases, each a process of its own release."""

import asyncio
import os
import sys
from asyncio.subprocess import STDOUT
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.processes import die_with_parent, stop
from tests.support.releases import NoSuchRelease, python_of
from tests.support.waiting import until

# yes: from the previous release; else from this tag or commit.
UPGRADE = os.environ.get("UPGRADE", "")


class Release(NamedTuple):
    name: str
    python: Path


class Place:
    """An address at which instances of either release listen, one after the other."""

    def __init__(self, name: str, folder: Path, redis_url: str, settings: Mapping[str, object] | None = None) -> None:
        self.port = free_port()
        self.address = f"ws://127.0.0.1:{self.port}"
        self.release = ""
        self._name = name
        self._folder = folder
        self._redis_url = redis_url
        self._settings = settings or {}
        self._process: asyncio.subprocess.Process | None = None
        self._starts = 0

    async def run(self, release: Release, http: aiohttp.ClientSession) -> None:
        """Stop what runs here as a service manager does, and start the other release."""
        await self.stop()
        self._starts += 1
        log = self._folder / f"{self._name}-{self._starts}-{release.name}.log"
        settings = {
            "logs.format": "json",
            "server.stop_timeout_ms": 15_000,
            "watch.interval_ms": 1_000,
            "privacy.cluster_key_file": self._folder / "cluster.key",
            "auth.backup_file": self._folder / "credentials.json",
            **self._settings,
        }
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        serve = ["serve", "--port", str(self.port), "--redis-url", self._redis_url, *words]
        self._process = await started(release.python, log, "-m", "lingua_scheduler", *serve)
        self.release = release.name

        async def is_ready() -> bool:
            assert self._process is not None
            assert self._process.returncode is None, log.read_text("utf-8")[-2_000:]
            try:
                async with http.get(f"http://127.0.0.1:{self.port}/health/ready") as response:
                    return response.status == 200
            except aiohttp.ClientError:
                return False

        await until(is_ready)

    async def stop(self) -> None:
        if self._process is not None:
            await stop(self._process, 60.0)

    def logs(self) -> list[str]:
        return [path.read_text("utf-8") for path in sorted(self._folder.glob(f"{self._name}-*.log"))]


async def started(python: Path, log: Path, *words: str, folder: Path | None = None) -> asyncio.subprocess.Process:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("LINGUA_", "OTEL_", "PYTHON"))
    }
    with log.open("wb") as output:
        return await asyncio.create_subprocess_exec(
            str(python),
            *words,
            stdout=output,
            stderr=STDOUT,
            env=environment,
            cwd=folder or log.parent,
            preexec_fn=die_with_parent,
        )


def both_releases() -> tuple[Release, Release]:
    try:
        previous = python_of("" if UPGRADE == "yes" else UPGRADE)
    except NoSuchRelease as error:
        pytest.skip(str(error))
    return Release("previous", previous), Release("this", Path(sys.executable))
