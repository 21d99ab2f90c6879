"""The processes of a run: instances of the scheduler, nodes, attackers; killed, frozen, started again."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.processes import die_with_parent, stop

START_WITHIN_S = 60.0
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Child:
    """A process that can be started again with the same words; `{start}` in them is how often it was started."""

    def __init__(self, name: str, folder: Path, *words: str) -> None:
        self.name = name
        self._words = words
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self.starts = 0

    @property
    def full_name(self) -> str:
        return f"{self.name}-{self.starts}"

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        self.starts += 1
        words = [word.replace("{start}", str(self.starts)) for word in self._words]
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("LINGUA_", "OTEL_"))}
        with self.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *words),
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=variables,
                preexec_fn=die_with_parent,
            )

    def signal(self, number: int) -> None:
        if self.is_running:
            assert self._process is not None
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    async def ended(self, within_s: float) -> None:
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), within_s)

    async def stop(self, grace_s: float = 15.0) -> None:
        self.signal(signal.SIGCONT)
        if self._process is not None:
            await stop(self._process, grace_s)

    def memory_mb(self) -> float | None:
        if not self.is_running:
            return None
        assert self._process is not None
        with contextlib.suppress(OSError):
            return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * PAGE_MB
        return None


def instance(number: int, folder: Path, redis_url: str, settings: dict[str, str]) -> tuple[Child, int]:
    port = free_port()
    own = {"server.instance_id": f"i{number}-{{start}}", "logs.format": "json", "redis.wait": "true"}
    own |= {"privacy.cluster_key_file": str(folder / "cluster.key")} | settings
    changes = [word for name, value in own.items() for word in ("--set", f"{name}={value}")]
    words = ("-m", "lingua_scheduler", "serve", "--port", str(port), "--redis-url", redis_url, *changes)
    return Child(f"i{number}", folder, *words), port


def nodes(number: int, folder: Path, addresses: list[str], ours: int, existing: int, seed: int) -> Child:
    names = [f"n{number}-{place}" for place in range(ours)], [f"x{number}-{place}" for place in range(existing)]
    journal = folder / "journals" / f"nodes{number}-{{start}}.jsonl"
    journal.parent.mkdir(exist_ok=True)
    first = number % len(addresses)
    turned = ",".join(addresses[first:] + addresses[:first])
    return Child(
        f"nodes{number}",
        folder,
        *("-m", "tools.chaos.nodes", str(journal), turned, *(",".join(some) for some in names), f"{seed}-{number}"),
    )


def flood(kind: str, folder: Path, port: int, seconds: float, per_second: int) -> Child:
    return Child(kind, folder, "-m", "tools.chaos.floods", kind, str(port), str(seconds), str(per_second))
