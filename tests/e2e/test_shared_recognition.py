"""What shared recognition saves: the time of nodes for one utterance in 1, 3 and 8 languages, printed."""

from functools import partial

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.work import Outcome
from lingua_scheduler.services.dispatch.staged import Listeners
from tests.support.peers import FakeNode, Frame, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET, work
from tests.support.text_nodes import able, made_of
from tests.support.waiting import until

LANGUAGES = ("pt", "es", "fr", "de", "it", "nl", "pl", "sv")
# Of a sentence of three seconds: a small recogniser with repair, a translator and a voice, without a GPU.
STAGE_MS = {"use_asr": 600, "use_nmt": 120, "use_tts": 250}


def _are_pooled(scheduler: Scheduler) -> bool:
    return all(link.pools for link in scheduler._connected.links.all())


async def node_ms(scheduler: Scheduler, spent: list[int], count: int) -> int:
    spent.clear()
    outcomes: dict[str, Outcome] = {}
    listeners = Listeners(on_recognised=lambda *_: None, on_outcome=outcomes.__setitem__, binding_of=lambda _: None)
    spoken = work(
        terms=Terms("en", ""), audio=PACKET * 150, utterance_index=count, names=Pseudonyms(b"key", "s-00000001")
    )
    scheduler._staged.start(spoken, dict.fromkeys(LANGUAGES[:count], True), listeners)
    await until(lambda: len(outcomes) == count, within_s=60)
    assert all(outcome.result is not None for outcome in outcomes.values())
    return sum(spent)


@pytest.mark.timeout(300)
async def test_node_time_with_and_without_it(server: RedisProcess, capsys: pytest.CaptureFixture[str]) -> None:
    spent: list[int] = []

    async def do(node: FakeNode, job: Frame) -> None:
        took_ms = sum(ms for stage, ms in STAGE_MS.items() if job["pipeline"][stage])
        spent.append(took_ms)
        await node.socket.send(result_of(job, node.node_id, **made_of(job) | {"processing_time_ms": took_ms}))

    found: dict[bool, list[int]] = {}
    for shares in (False, True):
        async with (
            scheduler_on(server.url, rooms__shared_recognition=shares, redis__key_prefix=f"lingua:{shares}") as (
                scheduler,
                _,
            ),
            field(scheduler.port) as peers,
        ):
            pairs = [f"en-{language}" for language in LANGUAGES]
            await peers.node(do, **able(asr=["en"], nmt=pairs, tts=LANGUAGES), max_concurrent_jobs=16)
            await until(partial(_are_pooled, scheduler))
            await scheduler._pool_map.look_again()
            found[shares] = [await node_ms(scheduler, spent, count) for count in (1, 3, 8)]
    whole = sum(STAGE_MS.values())
    assert found[False] == [whole, 3 * whole, 8 * whole]
    rest = whole - STAGE_MS["use_asr"]
    assert found[True] == [whole, STAGE_MS["use_asr"] + 3 * rest, STAGE_MS["use_asr"] + 8 * rest]
    with capsys.disabled():
        print("\nnode time of one utterance, ms: languages, each by itself, shared, saved")
        for count, alone, shared in zip((1, 3, 8), found[False], found[True], strict=True):
            print(f"  {count}  {alone:>5}  {shared:>5}  {1 - shared / alone:>4.0%}")
