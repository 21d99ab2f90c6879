"""Keep as many nodes on this machine as the load calls for: python autoscaler.py --max 8 -- --languages en,zh

It asks the scheduler how many slots are wanted (GET /v1/scaling), starts `lingua node --engine sim` processes, and
drains a node before it stops it. What follows `--` are options of `lingua node`.
"""

import argparse
import asyncio
import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Sequence

import msgspec

from lingua_sdk.access import AccessDenied
from lingua_sdk.http import Absent, Refused, get, post
from lingua_sdk.processes import die_with_parent, stop
from lingua_sdk.trouble import Failures

# A node that is drained may take so long for its last job; then it is stopped all the same, and its job is retried.
DRAIN_WITHIN_S = 120.0
# After SIGTERM a node finishes its jobs.
STOP_WITHIN_S = 60.0
# A drained node that the scheduler did not know so often is not waited for.
TIMES_ABSENT = 20
# A node that ends sooner than this after its start is not started again at once.
SHORT_LIFE_S = 10.0


class Asked(msgspec.Struct):
    """Of the answer of GET /v1/scaling."""

    wanted_slots: int
    is_settled: bool = True


class Held(msgspec.Struct):
    """Of the answer of GET /v1/nodes/{node_id}."""

    held: int


class LocalNode:
    def __init__(self, node_id: str, process: asyncio.subprocess.Process) -> None:
        self.node_id = node_id
        self.process = process
        self.started_s = time.monotonic()
        self.draining: asyncio.Task[None] | None = None
        self.times_absent = 0


class Autoscaler:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._token = os.environ.get("LINGUA_TOKEN")
        self._nodes: list[LocalNode] = []
        self._count = 0
        self._changed_s = -math.inf
        self._wait_until_s = 0.0
        self._is_away = False

    async def run(self) -> None:
        """Until it is cancelled; then all nodes finish their jobs and end."""
        try:
            while True:
                await self._look()
                await asyncio.sleep(self._options.interval)
        finally:
            await asyncio.shield(self._stop_all())

    async def _look(self) -> None:
        self._bury()
        asked = await self._ask()
        if asked is None:
            # It is restarting, perhaps: nodes reconnect by themselves.
            wanted = self._nodes_for(0)
            await self._add(wanted - len(self._working))
            return
        wanted, there = self._nodes_for(asked.wanted_slots), len(self._working)
        if wanted > there:
            await self._add(wanted - there)
        elif wanted < there and asked.is_settled and time.monotonic() - self._changed_s >= self._options.cool_down:
            for node in self._working[wanted:]:
                self._changed_s = time.monotonic()
                node.draining = asyncio.create_task(self._drain(node))
        _say("wanted_slots", asked.wanted_slots, "nodes", len(self._working), "leaving", len(self._leaving))

    async def _ask(self) -> Asked | None:
        path = "/v1/scaling" + (f"?pair={self._options.pair}" if self._options.pair else "")
        try:
            asked = msgspec.json.decode(await get(self._options.url, path, self._token), type=Asked)
        except (*Failures, Refused, AccessDenied, msgspec.DecodeError) as error:
            if not self._is_away:
                _say("cannot ask the scheduler, so nothing changes:", str(error) or type(error).__name__)
            self._is_away = True
            return None
        self._is_away = False
        return asked

    def _nodes_for(self, slots: int) -> int:
        options = self._options
        wanted: int = min(options.max, max(options.min, math.ceil(slots / options.slots)))
        return wanted

    @property
    def _working(self) -> list[LocalNode]:
        return [node for node in self._nodes if node.draining is None]

    @property
    def _leaving(self) -> list[LocalNode]:
        return [node for node in self._nodes if node.draining is not None]

    async def _add(self, count: int) -> None:
        """A node that is being drained still counts, so that there are never more processes than --max allows."""
        if time.monotonic() < self._wait_until_s:
            return
        for _ in range(min(count, self._options.max + 1 - len(self._nodes))):
            self._count += 1
            node_id = f"{self._options.name}-{os.getpid()}-{self._count}"
            command = [sys.executable, "-m", "lingua_scheduler", "node", "--engine", "sim", "--url", self._options.url]
            process = await asyncio.create_subprocess_exec(
                *command,
                *("--id", node_id, "--slots", str(self._options.slots)),
                *self._options.node_options,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=None if self._options.verbose else asyncio.subprocess.DEVNULL,
                preexec_fn=die_with_parent,
                start_new_session=True,  # Ctrl-C is for the autoscaler, which ends them in order
            )
            self._nodes.append(LocalNode(node_id, process))
            self._changed_s = time.monotonic()
            _say("started", node_id)

    def _bury(self) -> None:
        """Forget the processes that ended by themselves; the next look starts others, if they are wanted."""
        for node in [node for node in self._working if node.process.returncode is not None]:
            self._nodes.remove(node)
            _say("ended by itself", node.node_id, "with exit code", node.process.returncode)
            if time.monotonic() - node.started_s < SHORT_LIFE_S:
                self._wait_until_s = time.monotonic() + SHORT_LIFE_S

    async def _drain(self, node: LocalNode) -> None:
        """A drained node gets no new jobs. Only when it holds none is its process told to end."""
        deadline_s = time.monotonic() + DRAIN_WITHIN_S
        while time.monotonic() < deadline_s and node.process.returncode is None:
            if await self._is_drained(node):
                break
            await asyncio.sleep(min(0.5, self._options.interval))
        await stop(node.process, STOP_WITHIN_S)
        self._nodes.remove(node)
        _say("drained and stopped", node.node_id)

    async def _is_drained(self, node: LocalNode) -> bool:
        """Asked for again each time: a node that reconnects is not being drained any more."""
        options = self._options
        try:
            await post(options.url, f"/v1/nodes/{node.node_id}/drain", b"", self._token)
            about = await get(options.url, f"/v1/nodes/{node.node_id}", self._token)
            return msgspec.json.decode(about, type=Held).held == 0
        except Absent:
            # It may be about to reconnect, with a result.
            node.times_absent += 1
            return node.times_absent > TIMES_ABSENT
        except (*Failures, Refused, AccessDenied, msgspec.DecodeError):
            return False

    async def _stop_all(self) -> None:
        for node in self._leaving:
            if node.draining is not None:
                node.draining.cancel()
        await asyncio.gather(*(stop(node.process, STOP_WITHIN_S) for node in self._nodes))
        _say("stopped", len(self._nodes), "nodes")


def _say(*words: object) -> None:
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="ws://127.0.0.1:5010", help="the scheduler")
    parser.add_argument("--pair", default="", help="the pairs that the nodes serve: en:zh,zh:en; default: all")
    parser.add_argument("--slots", type=int, default=4, help="of each node")
    parser.add_argument("--min", type=int, default=1, help="nodes that always run")
    parser.add_argument("--max", type=int, default=8, help="nodes at most; one more while a drained one ends")
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between two looks")
    parser.add_argument("--cool-down", type=float, default=15.0, help="seconds after a change until nodes are stopped")
    parser.add_argument("--name", default="autoscaled", help="what the ids of its nodes begin with")
    parser.add_argument("--verbose", action="store_true", help="show what the nodes say")
    options = parser.parse_args(words[:end])
    if not 0 <= options.min <= options.max or options.slots < 1 or options.interval <= 0:
        parser.error("--min must be 0 to --max, --slots at least 1, --interval above 0")
    options.node_options = words[end + 1 :]
    return options


async def main() -> None:
    loop, scaling = asyncio.get_running_loop(), asyncio.current_task()
    assert scaling is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, scaling.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await Autoscaler(_options(sys.argv[1:])).run()


if __name__ == "__main__":
    asyncio.run(main())
