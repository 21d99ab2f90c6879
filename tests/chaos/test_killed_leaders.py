"""The leader killed or frozen: another leads soon, dispatch does not notice, and who comes back late cannot publish."""

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lingua_scheduler.store.store import Store
from tests.support.crowds import are_ready, crowd_on
from tests.support.figures import percentile
from tests.support.instances import Instance, instances, leader
from tests.support.peers import field, heartbeat, registration
from tests.support.servers import RedisProcess
from tests.support.waiting import until

LEADER_MS = 2_000
SETTINGS = {"pools__leader_ms": LEADER_MS, "instances__beat_ms": 500, "instances__dead_ms": 1_500}
BEFORE_S = 4.0
# Far above what two busy cores do by chance, far below what a dispatch that waits for a leader would take.
MAX_SLOWER, MAX_GAP_S = 5.0, LEADER_MS / 1000 / 4
LED_WITHIN_S = LEADER_MS / 1000 + 6


async def leads(among: list[Instance], asked: Instance) -> Instance | None:
    """Who of these leads, in the eyes of one of them."""
    name = await leader(asked)
    return next((instance for instance in among if instance.name == name), None)


async def parted(started: list[Instance]) -> tuple[Instance, list[Instance]]:
    """The leader and the others."""
    first: Instance = await until(lambda: leads(started, started[0]), 30, "a leader")
    return first, [instance for instance in started if instance is not first]


@pytest.mark.slow
async def test_when_the_leader_is_killed_another_leads_and_dispatch_goes_on_as_before(
    server: RedisProcess, store: Store, tmp_path: Path
) -> None:
    async with instances(tmp_path, server.url, 3, **SETTINGS) as started:
        killed, others = await parted(started)
        # Everybody is at the others, so that what they feel is the lack of a leader and nothing else.
        async with crowd_on(others, store, nodes=4, people=8, delay_s=0.0, under_way=1) as crowd:
            crowd.start_talking(pause_s=0.05)
            await until(lambda: crowd.outcomes > 50, 30, "people talking")
            began_s = time.monotonic()
            await asyncio.sleep(BEFORE_S)
            await killed.kill()
            killed_s = time.monotonic()
            heir: Instance = await until(lambda: leads(others, others[0]), LED_WITHIN_S, "another leader")
            led_s = time.monotonic()
            tally = await crowd.hear_out(20)
            before_s, gap_s = crowd.took_s(began_s, killed_s), crowd.took_s(killed_s, led_s)
            slower = median(gap_s) / median(before_s)
            tail = percentile(gap_s, 99) / percentile(before_s, 99)
            print(
                f"\nleader {killed.name} killed, {heir.name} leads after {led_s - killed_s:.1f} s; {tally}\n"
                f"an utterance takes {median(before_s) * 1000:.1f} ms before, {median(gap_s) * 1000:.1f} ms in the gap "
                f"({slower:.2f} times); p99 {percentile(before_s, 99) * 1000:.1f} and "
                f"{percentile(gap_s, 99) * 1000:.1f} ms ({tail:.2f} times); {len(before_s)} and {len(gap_s)} of them"
            )
            assert (tally.lost, tally.twice, set(tally.kinds)) == (0, 0, {"translated"})
            assert len(gap_s) > 10
            assert slower < MAX_SLOWER or median(gap_s) < MAX_GAP_S


@pytest.mark.slow
async def test_a_leader_that_was_frozen_cannot_publish_when_it_wakes(
    server: RedisProcess, store: Store, tmp_path: Path
) -> None:
    async with instances(tmp_path, server.url, 3, **SETTINGS) as started:
        frozen, others = await parted(started)
        async with field(frozen.port) as peers, field(others[0].port) as elsewhere:
            node = await peers.node(heartbeat_interval_ms=15_000)
            await until(lambda: are_ready(store, 1))
            await until(lambda: _map_of(others[0], frozen.name, "en:zh"))
            frozen.freeze()
            heir: Instance = await until(lambda: leads(others, others[0]), LED_WITHIN_S, "another leader")
            # The map changes while it sleeps, and its own node gives it a reason to build one as soon as it wakes.
            await elsewhere.node(languages=("fr", "de"))
            published = await until(lambda: _map_of(others[0], heir.name, "fr:de"))
            await node.socket.send(heartbeat(node.node_id) | _able(("en", "zh", "ja")))
            frozen.wake()
            maps = [published]

            async def has_heard() -> bool:
                maps.append(await others[0].get("/v1/pools"))
                return "leader.lost" in frozen.log and maps[-1]["version"] > published["version"]

            await until(has_heard, 20, "the news of its node in the map of its heir")
            print(
                f"\n{frozen.name} woke under {heir.name}; versions {published['version']} to {maps[-1]['version']}, "
                f"all by { ({found['generated_by'] for found in maps}) }"
            )
            assert {found["generated_by"] for found in maps} == {heir.name}
            assert "en:ja" in maps[-1]["pairs"]
            versions = [found["version"] for found in maps]
            assert versions == sorted(versions)


async def _map_of(asked: Instance, publisher: str, pair: str) -> Any:
    """The published map, if this instance made it and it has the pair."""
    found = await asked.get("/v1/pools")
    return found if found["generated_by"] == publisher and pair in found["pairs"] else None


def _able(languages: tuple[str, ...]) -> dict[str, Any]:
    return {"language_capabilities": registration(languages)["language_capabilities"]}
