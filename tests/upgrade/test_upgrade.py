"""Two adjacent releases on one Redis under load: upgraded one instance after the other, and back again.

Each instance and node is a process of its own release. `make test-upgrade` runs it and prints the figures."""

import asyncio
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from lingua_scheduler.cli.load import crowd
from lingua_scheduler.cli.load.crowd import Crowd, Plan
from lingua_scheduler.domain.maintenance.versions import DATA_VERSION
from lingua_scheduler.store.store import Store
from lingua_sdk.audio import SAMPLE_RATE
from lingua_sdk.client import Client, Partial, Translation
from lingua_sdk.processes import stop
from tests.support.release_places import UPGRADE, Place, Release, both_releases, started
from tests.support.servers import RedisProcess
from tests.support.surprises import SURPRISES
from tests.support.tones import tone
from tests.support.waiting import until

AUDIO = tone(300, SAMPLE_RATE, 1.2).tobytes()
TALKERS, NODES_EACH, RATE = 12, 2, 3.0
# Utterances that are translated between two changes, so that both releases have work in each state of the fleet.
BETWEEN = 3 * TALKERS
# A peer loses its instance now and then, and may be sent on once by rebalancing: more would be a storm.
RECONNECTS_FOR_EACH_STOP = 2

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not UPGRADE, reason="a minute or more of speech on two releases: make test-upgrade"),
]


# What a simulated node makes of speech.
_SECONDS = re.compile(r"\d+\.\d")


class Heard:
    """What applications said and were given, by session and utterance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outcomes: Counter[tuple[str, int]] = Counter()
        # Speech of each session, in seconds: as it was sent, and as simulated nodes say that they heard it.
        self.sent_s: Counter[str] = Counter()
        self.heard_s: Counter[str] = Counter()
        heard = self

        class Listening(Client):
            async def send(self, pcm16: bytes, *, is_final: bool = False) -> None:
                heard.sent_s[self.session_id] += len(pcm16) / 2 / SAMPLE_RATE  # type: ignore[assignment]
                await super().send(pcm16, is_final=is_final)

            async def results(self) -> AsyncIterator[Any]:
                async for result in super().results():
                    if not isinstance(result, Partial):
                        heard.outcomes[self.session_id, result.utterance_index] += 1
                    if isinstance(result, Translation) and self.session_id in heard.sent_s:
                        heard.heard_s[self.session_id] += float(_SECONDS.findall(result.text)[0])  # type: ignore[assignment]
                    yield result

        monkeypatch.setattr(crowd, "Client", Listening)

    @property
    def missing(self) -> list[tuple[str, int]]:
        highest: dict[str, int] = {}
        for session, index in self.outcomes:
            highest[session] = max(index, highest.get(session, 0))
        return [(session, n) for session, most in highest.items() for n in range(most) if not self.outcomes[session, n]]

    @property
    def twice(self) -> list[tuple[str, int]]:
        return [what for what, times in self.outcomes.items() if times > 1]


class Nodes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def times(self) -> list[float]:
        """When a node registered, by the one clock of this machine."""
        lines = [line for path in self._folder.glob("node-*.log") for line in path.read_text("utf-8").splitlines()]
        return sorted(float(line.split(" ")[0]) for line in lines if " registered: " in line)


@asynccontextmanager
async def nodes_of(releases: tuple[Release, ...], folder: Path, addresses: list[str]) -> AsyncIterator[Nodes]:
    script = str(Path(__file__).with_name("node.py"))
    async with AsyncExitStack() as stack:
        for release in releases:
            for number in range(NODES_EACH):
                # Half of them begin at each instance.
                own = addresses if number % 2 else addresses[::-1]
                name = f"node-{release.name}-{number}"
                process = await started(release.python, folder / f"{name}.log", script, name, *own)
                stack.push_async_callback(stop, process, 30.0)
        yield Nodes(folder)


def test_the_previous_release_is_another_one_than_this() -> None:
    """Or the test below would compare a release with itself."""
    where = "import lingua_scheduler; print(lingua_scheduler.__file__)"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    found = {
        subprocess.run([str(one.python), "-c", where], capture_output=True, text=True, check=True, env=clean).stdout
        for one in both_releases()
    }
    assert len(found) == 2


async def test_releases_are_exchanged_under_load_and_back_without_a_loss(
    server: RedisProcess, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    previous, this = both_releases()
    monkeypatch.setattr(crowd, "PAUSE_S", (0.1, 0.4))
    heard = Heard(monkeypatch)
    places = [Place(name, tmp_path, server.url) for name in ("a", "b")]
    addresses = [place.address for place in places]
    began_s = time.monotonic()
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for place in places:
            stack.push_async_callback(place.stop)
            await place.run(previous, http)
        nodes = await stack.enter_async_context(nodes_of((previous, this), tmp_path, addresses))
        await until(lambda: len(nodes.times()) == 2 * NODES_EACH)
        # Half of them stream speech, which a handover may cut in two; half ask for whole utterances by their numbers.
        crowds = [talking(addresses, 0.0), talking(addresses[::-1], RATE)]
        running = [asyncio.create_task(people.run()) for people in crowds]
        await spoken(crowds)
        version = await store.versions.read()
        for release in (this, previous):
            for place in places:
                await place.run(release, http)
                await spoken(crowds)
                print(
                    f"{time.monotonic() - began_s:.0f} s: {' and '.join(one.release for one in places)}; {told(crowds)}"
                )
            # Nothing was finished yet, so the way back stays open.
            assert await store.versions.read() == version == str(DATA_VERSION)
        for people in crowds:
            people.stop()
        await asyncio.gather(*running)
        stops, peers = 4, 2 * NODES_EACH
        reconnects = Counter(
            {"nodes": len(nodes.times()) - peers, "sessions": sum(one.tally.resumed for one in crowds)}
        )
        await check_data(places[0], http)
    said = sum(one.tally.said for one in crowds)
    print(
        f"{len(heard.outcomes)} outcomes of {said} utterances, {len(heard.missing)} missing, {len(heard.twice)} twice"
    )
    print(f"reconnects: {dict(reconnects)} of {peers} nodes and {TALKERS} sessions in {stops} stops; ", end="")
    print(f"most node registrations in a second: {most_in_a_second(nodes.times()[peers:])}")
    for people in crowds:
        assert (dict(people.tally.failed), dict(people.tally.gaps), dict(people.tally.sessions_lost)) == ({}, {}, {})
    # A handover moves the places at which streamed speech is cut, so of that all seconds are counted.
    print(f"{sum(heard.sent_s.values()):.1f} s of speech were streamed, {sum(heard.heard_s.values()):.1f} s translated")
    assert heard.heard_s == {session: pytest.approx(sent_s, abs=0.09) for session, sent_s in heard.sent_s.items()}
    assert len(heard.sent_s) == TALKERS // 2
    whole = crowds[1].tally
    assert (whole.problems(None), whole.translated, whole.under_way) == ([], whole.said, 0)
    assert heard.twice == []
    # Of each session every number, those included that were cut in two by a handover.
    assert heard.missing == []
    assert reconnects["nodes"] <= RECONNECTS_FOR_EACH_STOP * stops * peers
    assert reconnects["sessions"] <= RECONNECTS_FOR_EACH_STOP * stops * TALKERS
    for place in places:
        for log in place.logs():
            SURPRISES.look_at_log(log)


def talking(addresses: list[str], rate: float) -> Crowd:
    plan = Plan("", "en", "zh", TALKERS // 2, rate, 3_600.0, 1.0, AUDIO)
    return Crowd(plan._replace(address=addresses))  # type: ignore[arg-type]


async def spoken(crowds: list[Crowd]) -> None:
    before = sum(people.tally.translated for people in crowds)
    await until(lambda: sum(people.tally.translated for people in crowds) >= before + BETWEEN, within_s=240)


def told(crowds: list[Crowd]) -> str:
    said, translated = (sum(getattr(one.tally, name) for one in crowds) for name in ("said", "translated"))
    return f"{said} said, {translated} translated, {sum(one.tally.resumed for one in crowds)} sessions resumed"


def most_in_a_second(times: list[float]) -> int:
    return max((sum(begin <= one < begin + 1 for one in times) for begin in times), default=0)


async def check_data(place: Place, http: aiohttp.ClientSession) -> None:
    """All is quiet: no slot is taken, and no letter was given up."""

    async def is_quiet() -> bool:
        async with http.get(f"http://127.0.0.1:{place.port}/v1/picture") as response:
            picture = msgspec.json.decode(await response.read())
        return (picture["now"]["slots_taken"], picture["dead_letters"]) == (0, 0)

    await until(is_quiet)
