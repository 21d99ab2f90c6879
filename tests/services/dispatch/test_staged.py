"""One utterance into several languages: recognised once where nodes take text, else as whole jobs."""

from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.ladder import Rung
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.work import Binding, Outcome, Work
from lingua_scheduler.services.dispatch.staged import Listeners
from lingua_sdk.domain.errors import ErrorCode
from tests.support.peers import FakeNode, Field, Frame, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET, work
from tests.support.text_nodes import HEARD, able, do, fail
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)


class Speaker:
    """Puts utterances to the scheduler, and keeps what became of each language."""

    def __init__(self, scheduler: Scheduler, peers: Field) -> None:
        self.scheduler, self.peers = scheduler, peers
        self.staged = scheduler._staged
        self.recognised: list[tuple[str, str]] = []
        self.outcomes: dict[str, list[Outcome]] = {}
        self.bindings: dict[str, Binding] = {}
        self._index = 0

    async def node(self, behaviour: Any = do, **abilities: Any) -> FakeNode:
        node = await self.peers.node(behaviour, **able(**abilities))
        await until(lambda: (link := self.scheduler._connected.links.find(node.node_id)) and link.pools)
        await self.scheduler._pool_map.look_again()
        return node

    def say(self, targets: Mapping[str, bool], **more: Any) -> None:
        self._index += 1
        terms = Terms("en", "", enable_streaming_asr=True)
        names = Pseudonyms(b"key", "s-00000001")
        fields: dict[str, Any] = {"terms": terms, "names": names, "audio": PACKET, "utterance_index": self._index}
        spoken: Work = work(**(fields | more))
        self.staged.start(
            spoken,
            targets,
            Listeners(
                on_recognised=lambda text, lang: self.recognised.append((text, lang)),
                on_outcome=lambda lang, outcome: self.outcomes.setdefault(lang, []).append(outcome),
                binding_of=lambda lang: self.bindings.setdefault(lang, Binding()),
            ),
        )

    async def heard(self, *langs: str) -> dict[str, str]:
        """What each language got, and each once."""
        await until(lambda: all(lang in self.outcomes for lang in langs), 60.0)
        found, self.outcomes = self.outcomes, {}
        assert {lang: len(outcomes) for lang, outcomes in found.items()} == dict.fromkeys(langs, 1)
        return {lang: _said(outcome) for lang, (outcome,) in found.items()}


def _said(outcome: Outcome) -> str:
    if outcome.result is None or outcome.state is not JobState.DONE:
        return outcome.state.value if outcome.error is None else outcome.error.value
    assert outcome.result.text_asr == f"en({HEARD})"
    if outcome.result.tts_audio:
        assert b64decode(outcome.result.tts_audio).decode() == outcome.result.text_translated
        return f"{outcome.result.text_translated} spoken"
    return outcome.result.text_translated or ""


@asynccontextmanager
async def speaking(server: RedisProcess, **settings: Any) -> AsyncIterator[Speaker]:
    changes = {"redis__timeout_ms": 30_000, "job__linger_ms": 0} | settings
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        yield Speaker(scheduler, peers)


@pytest.fixture
async def speaker(server: RedisProcess) -> AsyncIterator[Speaker]:
    async with speaking(server) as one:
        yield one


WHOLE: dict[str, Any] = {"asr": ["en"], "nmt": ["en-pt", "en-es", "en-fr"], "tts": ["pt", "es"]}


def asked_of(node: FakeNode) -> list[tuple[bool, str]]:
    """Of each of its jobs whether it brought text, and the target."""
    return sorted(("text_input" in job, job["tgt_lang"]) for job in node.jobs)


async def test_several_languages_share_one_recognition(speaker: Speaker) -> None:
    node = await speaker.node(**WHOLE)
    speaker.say({"pt": True, "es": True, "fr": False})
    assert await speaker.heard("pt", "es", "fr") == {
        "pt": "pt[en(words)] spoken",
        "es": "es[en(words)] spoken",
        "fr": "fr[en(words)]",
    }
    assert asked_of(node) == [(False, "en"), (True, "es"), (True, "fr"), (True, "pt")]
    assert speaker.recognised == [("en(words)", "en")]
    assert len({job["session_id"] for job in node.jobs}) == 4
    recognition = next(job for job in node.jobs if job["audio"])
    assert (recognition["pipeline"]["use_nmt"], recognition["pipeline"]["use_tts"]) == (False, False)


async def test_one_language_is_one_whole_job(speaker: Speaker) -> None:
    node = await speaker.node(**WHOLE)
    speaker.say({"pt": True})
    assert await speaker.heard("pt") == {"pt": "pt[en(words)] spoken"}
    assert asked_of(node) == [(False, "pt")]
    assert speaker.recognised == [("en(words)", "en")]
    assert speaker.bindings["pt"].node_id == node.node_id


async def test_nodes_that_take_no_text_get_whole_jobs(speaker: Speaker) -> None:
    node = await speaker.node(**WHOLE, text=False)
    speaker.say({"pt": True, "fr": False})
    assert await speaker.heard("pt", "fr") == {"pt": "pt[en(words)] spoken", "fr": "fr[en(words)]"}
    assert asked_of(node) == [(False, "fr"), (False, "pt")]
    assert speaker.recognised == [("en(words)", "en")]
    assert [job["enable_streaming_asr"] for job in node.jobs].count(True) == 1


async def test_it_can_be_switched_off(server: RedisProcess) -> None:
    async with speaking(server, rooms__shared_recognition=False) as speaker:
        node = await speaker.node(**WHOLE)
        speaker.say({"pt": True, "fr": False})
        await speaker.heard("pt", "fr")
        assert asked_of(node) == [(False, "fr"), (False, "pt")]


async def test_languages_that_text_does_not_reach_get_whole_jobs(speaker: Speaker) -> None:
    await speaker.node(**WHOLE)
    other = await speaker.node(asr=["en"], nmt=["en-zh"], tts=["zh"], text=False)
    speaker.say({"pt": True, "es": True, "zh": True})
    assert (await speaker.heard("pt", "es", "zh"))["zh"] == "zh[en(words)] spoken"
    assert [asked for asked in asked_of(other) if asked[1] == "zh"] == [(False, "zh")]


async def test_nodes_that_do_one_thing_each_work_together(speaker: Speaker) -> None:
    ears = await speaker.node(asr=["en"])
    pen = await speaker.node(nmt=["en-pt", "en-es"])
    mouth = await speaker.node(tts=["pt", "es"])
    speaker.say({"pt": True, "es": True})
    assert await speaker.heard("pt", "es") == {"pt": "pt[en(words)] spoken", "es": "es[en(words)] spoken"}
    assert (asked_of(ears), asked_of(pen)) == ([(False, "en")], [(True, "es"), (True, "pt")])
    assert asked_of(mouth) == [(True, "es"), (True, "pt")]
    assert speaker.recognised == [("en(words)", "en")]


async def test_one_language_needs_only_nodes_that_do_one_thing_each(speaker: Speaker) -> None:
    for abilities in ({"asr": ["en"]}, {"nmt": ["en-pt"]}, {"tts": ["pt"]}):
        await speaker.node(**abilities)
    speaker.say({"pt": True})
    assert await speaker.heard("pt") == {"pt": "pt[en(words)] spoken"}


async def test_a_recognition_that_fails_leaves_whole_jobs(speaker: Speaker) -> None:
    async def only_whole(node: FakeNode, job: Frame) -> None:
        await (do if job["pipeline"]["use_nmt"] else fail)(node, job)

    node = await speaker.node(only_whole, **WHOLE)
    speaker.say({"pt": True, "fr": False})
    assert await speaker.heard("pt", "fr") == {"pt": "pt[en(words)] spoken", "fr": "fr[en(words)]"}
    assert {asked for asked in asked_of(node) if asked[1] != "en"} == {(False, "fr"), (False, "pt")}


async def test_a_language_that_fails_from_text_gets_a_whole_job_and_delays_no_other(speaker: Speaker) -> None:
    async def not_to_french(node: FakeNode, job: Frame) -> None:
        await (fail if job["tgt_lang"] == "fr" and "text_input" in job else do)(node, job)

    await speaker.node(not_to_french, **WHOLE)
    speaker.say({"pt": True, "fr": False})
    assert await speaker.heard("pt", "fr") == {"pt": "pt[en(words)] spoken", "fr": "fr[en(words)]"}


async def test_a_language_that_hangs_delays_no_other(speaker: Speaker) -> None:
    async def silent_in_french(node: FakeNode, job: Frame) -> None:
        await (stay_silent if job["tgt_lang"] == "fr" else do)(node, job)

    await speaker.node(silent_in_french, **WHOLE)
    speaker.say({"pt": True, "fr": False})
    await until(lambda: "pt" in speaker.outcomes)
    assert "fr" not in speaker.outcomes


async def test_silence_is_silence_in_every_language(speaker: Speaker) -> None:
    async def nothing(node: FakeNode, job: Frame) -> None:
        await node.socket.send(result_of(job, node.node_id, text_asr="", extra={"reason": "ASR_EMPTY"}))

    node = await speaker.node(nothing, **WHOLE)
    speaker.say({"pt": True, "fr": False})
    assert await speaker.heard("pt", "fr") == {"pt": "NO_TEXT", "fr": "NO_TEXT"}
    assert len(node.jobs) == 1
    assert speaker.recognised == []


async def test_a_cancelled_recognition_ends_every_language(speaker: Speaker) -> None:
    node = await speaker.node(stay_silent, **WHOLE)
    speaker.say({"pt": True, "fr": False})
    await until(lambda: node.jobs)
    await speaker.scheduler._cancelling.cancel(node.jobs[0]["job_id"])
    assert await speaker.heard("pt", "fr") == {"pt": "CANCELLED", "fr": "CANCELLED"}


async def test_a_language_that_no_node_serves_says_so(speaker: Speaker) -> None:
    await speaker.node(**WHOLE)
    speaker.say({"pt": True, "zh": True})
    heard = await speaker.heard("pt", "zh")
    assert heard == {"pt": "pt[en(words)] spoken", "zh": ErrorCode.NO_CAPABLE_NODE.value}


async def test_a_third_language_helps_if_it_may(server: RedisProcess) -> None:
    async with speaking(server, pools__pivot_langs=("pt",)) as speaker:
        await speaker.node(**WHOLE)
        await speaker.node(nmt=["pt-ja"], tts=["ja"])
        speaker.say({"ja": True})
        await until(lambda: "ja" in speaker.outcomes)
        (outcome,) = speaker.outcomes["ja"]
        assert outcome.plan is not None
        assert (outcome.plan.rung, outcome.plan.pivot) == (Rung.PIVOT, "pt")
        assert await speaker.heard("ja") == {"ja": "ja[pt[en(words)]] spoken"}
        speaker.say({"ja": True}, allows_pivot=False)
        assert await speaker.heard("ja") == {"ja": ErrorCode.NO_CAPABLE_NODE.value}


async def test_an_unknown_spoken_language_means_whole_jobs(speaker: Speaker) -> None:
    node = await speaker.node(asr=["en", "pt"], nmt=["en-pt", "pt-en", "en-es", "pt-es"], tts=["pt", "en", "es"])
    terms = Terms("auto", "", auto_langs=("en", "pt"))
    speaker.say({"es": True}, terms=terms)
    await until(lambda: "es" in speaker.outcomes)
    assert [(job["src_lang"], job["tgt_lang"]) for job in node.jobs] == [("auto", "es")]


async def test_nobody_to_hear_it_means_no_job(speaker: Speaker) -> None:
    node = await speaker.node(**WHOLE)
    speaker.say({})
    speaker.say({"pt": True})
    await speaker.heard("pt")
    assert len(node.jobs) == 1
