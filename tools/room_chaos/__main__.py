"""`make chaos-rooms`: people of several languages talk in one room while nodes and an instance are killed.

python -m tools.room_chaos --minutes 10 --seed 1
"""

import asyncio
import random
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import aiohttp
import click

from lingua_scheduler.store.servers.embedded import shipped_binary
from tools.chaos.servers import Servers
from tools.chaos.world import Child, instance
from tools.room_chaos.people import Fault, Person, deaf, judged

LANGUAGES = ("en", "zh", "pt", "ja", "fr")
KILL_EVERY_S = 10.0
SETTLE_S = 90.0


class Order(NamedTuple):
    minutes: float
    seed: int
    people: int
    instances: int
    pace_s: float


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long people talk.")
@click.option("--seed", type=int, help="Draws pauses and whom to kill. Default: a random one.")
@click.option("--people", default=8, show_default=True, help="People in the room.")
@click.option("--instances", default=3, show_default=True, help="Scheduler processes.")
@click.option("--pace", "pace_s", default=4.0, show_default=True, help="Mean pause of one person between sentences, s.")
def main(minutes: float, seed: int | None, people: int, instances: int, pace_s: float) -> None:
    """Exit codes: 0 each listener read every utterance once and in order, 1 one did not."""
    seed = random.randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="lingua-rooms-") as folder:
        faults = asyncio.run(_run(Order(minutes, seed, people, instances, pace_s), Path(folder)))
    for fault in faults[:50]:
        click.echo(f"  {fault.who}: {fault.what}")
    click.echo("GOOD" if not faults else f"BAD: {len(faults)} faults")
    raise SystemExit(1 if faults else 0)


async def _run(order: Order, folder: Path) -> list[Fault]:
    dice = random.Random(order.seed)
    redis = Servers(str(shipped_binary()), folder, is_cluster=False)
    async with AsyncExitStack() as stack:
        stack.callback(redis.stop)
        redis.launch(0)
        started = [instance(number, folder, redis.url, {}) for number in range(order.instances)]
        schedulers = [child for child, _ in started]
        addresses = [f"127.0.0.1:{port}" for _, port in started]
        for child in schedulers:
            await child.start()
            stack.push_async_callback(child.stop)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for address in addresses:
            await _ready(http, address)
        nodes = [_node(number, folder, addresses, order.seed) for number in range(3)]
        for node in nodes:
            await node.start()
            stack.push_async_callback(node.stop)
        people = [
            Person(f"p{number}", LANGUAGES[number % len(LANGUAGES)], _turned(addresses, number))
            for number in range(order.people)
        ]
        code = ""
        for person in people:
            code = await person.enter(code)
            stack.push_async_callback(person.leave)
        for person in people:
            person.listen(people)
        ears = await deaf(http, addresses[-1], code)
        stack.push_async_callback(ears.close)
        await _joined(http, addresses[0], len(nodes))
        until_s = time.monotonic() + order.minutes * 60

        def is_over() -> bool:
            return time.monotonic() >= until_s

        talks = [
            asyncio.create_task(person.talk(is_over, random.Random(f"{order.seed} {person.name}"), order.pace_s))
            for person in people
        ]
        await _break(until_s, schedulers, nodes, dice)
        await asyncio.gather(*talks)
        faults = await _settled(people)
        _show(people)
        leaks = [] if faults else await _leaks(http, addresses, people)
        return faults + leaks


async def _break(until_s: float, schedulers: list[Child], nodes: list[Child], dice: random.Random) -> None:
    """A node every ten seconds, and one instance in the middle."""
    instance_at_s = (time.monotonic() + until_s) / 2
    while time.monotonic() + KILL_EVERY_S < until_s:
        await asyncio.sleep(KILL_EVERY_S)
        node = dice.choice(nodes)
        await node.kill()
        await node.start()
        if time.monotonic() >= instance_at_s:
            instance_at_s = float("inf")
            victim = dice.choice(schedulers)
            click.echo(f"killed {victim.name}")
            await victim.kill()
            await victim.start()


async def _settled(people: list[Person]) -> list[Fault]:
    """Wait until all is read, or for long enough; then what is wrong."""
    deadline_s = time.monotonic() + SETTLE_S
    while (faults := judged(people)) and time.monotonic() < deadline_s:
        await asyncio.sleep(1)
    return faults


def _show(people: list[Person]) -> None:
    said = sum(len(person.said) for person in people)
    untold = sum(words is None for person in people for _, words, _ in person.read)
    late = sum(is_late for person in people for _, _, is_late in person.read)
    resumed = sum(person.client.times_resumed for person in people)
    read = sum(len(person.read) for person in people)
    click.echo(f"said {said}, read {read}, without text {untold}, late {late}, resumed {resumed}")
    reasons = sum((person.reasons for person in people), Counter[str]())
    if reasons:
        click.echo("  without text: " + ", ".join(f"{why} {times}" for why, times in reasons.most_common()))
    for language in LANGUAGES:
        lags_s = sorted(lag for person in people if person.language == language for lag in person.lags_s)
        if len(lags_s) > 1:
            cuts = quantiles(lags_s, n=100)
            click.echo(f"  {language}: {len(lags_s)} read, lag p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s")


async def _leaks(http: aiohttp.ClientSession, addresses: list[str], people: list[Person]) -> list[Fault]:
    """When all have left, nothing is held any more."""
    for person in people:
        await person.leave()
    for address in addresses:
        await _ready(http, address)
    deadline_s = time.monotonic() + 60
    while True:
        held = [f"{address} {line}" for address in addresses for line in await _held(http, address)]
        if not held or time.monotonic() > deadline_s:
            return [Fault("leak", line) for line in held]
        await asyncio.sleep(1)


async def _held(http: aiohttp.ClientSession, address: str) -> list[str]:
    async with http.get(f"http://{address}/metrics") as response:
        lines = (await response.text()).splitlines()
    watched = ("lingua_audio_held_bytes ", "lingua_leases_held ")
    return [line for line in lines if line.startswith(watched) and float(line.split()[-1])]


def _node(number: int, folder: Path, addresses: list[str], seed: int) -> Child:
    words = (f"n{number}", ",".join(_turned(addresses, number)), ",".join(LANGUAGES), f"{seed}-{number}-{{start}}")
    return Child(f"node{number}", folder, "-m", "tools.room_chaos.nodes", *words)


def _turned(addresses: list[str], by: int) -> list[str]:
    by %= len(addresses)
    return addresses[by:] + addresses[:by]


async def _joined(http: aiohttp.ClientSession, address: str, nodes: int) -> None:
    for _ in range(600):
        async with http.get(f"http://{address}/v1/nodes") as response:
            if len((await response.json())["nodes"]) >= nodes:
                return
        await asyncio.sleep(0.1)
    raise click.ClickException("the nodes did not connect")


async def _ready(http: aiohttp.ClientSession, address: str) -> None:
    for _ in range(600):
        try:
            async with http.get(f"http://{address}/health/ready") as response:
                if response.status == 200:
                    return
        except OSError:
            pass
        await asyncio.sleep(0.1)
    raise click.ClickException(f"{address} did not get ready")


if __name__ == "__main__":
    main()
