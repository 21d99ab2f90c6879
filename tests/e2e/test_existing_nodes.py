"""Nodes in the field with default configuration get jobs they can do, on one instance and on two."""

from functools import partial
from pathlib import Path

import pytest

from tests.support.field_browser import one_way
from tests.support.field_mind import translation
from tests.support.field_node import FieldNode
from tests.support.field_places import LONG_S, place
from tests.support.field_speech import pcm16, say, sentence_of
from tests.support.peers import Frame
from tests.support.servers import RedisProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"]), pytest.mark.slow]
MIDDLE = "bravo charlie delta echo"


def said(text: str) -> str:
    return translation(text, "en", "zh")


async def test_a_job_has_the_fields_that_an_existing_node_can_bear(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Items 1, 3 and 5, and what §5 says of job fields."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node()
        browser = await here.browser()
        await browser.say(MIDDLE, presses_send=True)
        await until(lambda: browser.shown, LONG_S)
        assert browser.texts == [(MIDDLE, said(MIDDLE))]
        (job,) = node.speech_jobs()
        assert not {"lid", "context_text"} & set(job)
        assert job["pipeline"]["use_semantic"] is False
        assert job["enable_streaming_asr"] is True
        assert job["features"] == {}
        assert job["is_manual_cut"] is True
        assert (job["src_lang"], job["lang_a"], job["lang_b"]) == ("auto", "zh", "en")
        assert {frame["type"] for frame in node.said} == {"node_register", "node_heartbeat", "job_result"}
        assert not browser.alerts


async def test_a_sentence_is_translated_when_the_only_node_is_back_after_a_cut(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Items 2 and 4: another job id, and another session id on the node's side."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node(lambda job: 2.0)
        browser = await here.browser(asks=one_way())
        await browser.say(MIDDLE, presses_send=True)
        await until(node.speech_jobs, LONG_S)
        node.cut()
        await until(lambda: node.answered and node.answered[0].is_lost, LONG_S, "the result is lost")
        await until(lambda: browser.shown, LONG_S, "the sentence is translated after all")
        assert browser.texts == [(MIDDLE, said(MIDDLE))]
        assert browser.shown[0].frame["session_id"] == browser.session_id
        first, *others = node.speech_jobs()
        again = others[-1]
        assert again["job_id"] != first["job_id"]
        assert again["session_id"] != first["session_id"]
        assert await here.is_healthy(node)


async def test_two_target_languages_on_one_node_are_two_jobs_it_takes(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 2: two sessions that say the same are no duplicates, and no job comes back as one."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node()
        pages = [await here.browser(asks=one_way(tgt_lang=target)) for target in ("zh", "fr")]
        for page in pages:
            await page.say(MIDDLE, presses_send=True)
        await until(lambda: all(page.shown for page in pages), LONG_S)
        assert [page.texts[0][1] for page in pages] == [translation(MIDDLE, "en", target) for target in ("zh", "fr")]
        assert all(result["success"] for result in node.results)


async def test_each_part_of_a_long_speech_has_a_turn_of_its_own_on_one_node(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 3: parts are translated at once, in order, without a word lost, all on one node."""
    async with place(tmp_path, server.url, count) as here:
        nodes = [await here.node(), await here.node()]
        browser = await here.browser(asks=one_way())
        text = sentence_of(24)
        await browser.say(text, presses_send=True)
        await until(lambda: browser.shown and browser.texts[-1][0].endswith(text.split()[-1]), LONG_S)
        worked = [node for node in nodes if node.speech_jobs()]
        assert len(worked) == 1
        jobs = worked[0].speech_jobs()
        assert 2 <= len(jobs) <= 4
        assert len({job["turn_id"] for job in jobs}) == len(jobs)
        assert all(job["is_manual_cut"] for job in jobs)
        assert all(translated for _, translated in browser.texts)
        assert without_repeats(" ".join(heard for heard, _ in browser.texts)) == text


def has_jobs(node: FieldNode, number: int) -> bool:
    return len(node.speech_jobs()) == number


def without_repeats(text: str) -> str:
    """A word on both sides of a cut is heard twice."""
    words = text.split()
    return " ".join(word for place, word in enumerate(words) if place == 0 or words[place - 1] != word)


async def test_a_node_that_stays_silent_by_design_is_not_quarantined_and_holds_nobody_up(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 3: the same text again is not answered; the next sentence waits for it a moment, not `hold_ms`."""
    async with place(tmp_path, server.url, count, job__timeout_base_ms=4_000, delivery__hold_ms=60_000) as here:
        node = await here.node()
        browser = await here.browser(asks=one_way())
        texts = [MIDDLE, MIDDLE, MIDDLE, MIDDLE, "kilo lima mike november"]
        for number, text in enumerate(texts, 1):
            await browser.say(text, presses_send=True)
            # What follows at once may still belong to it.
            await until(partial(has_jobs, node, number), LONG_S)
        await until(lambda: len(browser.shown) == 2, LONG_S)
        assert browser.texts == [(MIDDLE, said(MIDDLE)), (texts[-1], said(texts[-1]))]
        waited = browser.shown[-1].at - node.answered_at(browser.shown[-1].frame["job_id"])
        # Neither `hold_ms` nor the time after which the silent one before it ends.
        assert waited < 4.0
        await until(lambda: len(browser.missing) >= 3, LONG_S, "the silent ones have an outcome")
        assert await here.is_healthy(node)
        assert not browser.alerts


async def test_a_node_that_needs_13_s_for_one_sentence_delivers_it_and_later_ones_wait_no_longer_than_the_hold(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 3: a job that is alive may be overtaken, never given up for order's sake."""
    hold_ms = 3_000

    def speed(job: Frame) -> float:
        return 13.0 if job["utterance_index"] == slow_index else 0.2

    async with place(tmp_path, server.url, count, delivery__hold_ms=hold_ms) as here:
        slow_index = 0
        nodes = [await here.node(speed), await here.node(speed)]
        browser = await here.browser(asks=one_way())
        texts = [sentence_of(2, start=4 * number) for number in range(3)]
        for number, text in enumerate(texts, start=1):
            await browser.say(text, presses_send=True)
            # Nobody goes on so soon that it belongs to what was cut off; a starved scheduler reads both at once.
            await until(partial(lambda most: sum(len(node.speech_jobs()) for node in nodes) == most, number))
        await until(lambda: len(browser.shown) == 3, LONG_S)
        assert dict(browser.texts) == {text: said(text) for text in texts}
        for shown in browser.shown:
            job_id = shown.frame["job_id"]
            answered = next(answer.at for node in nodes for answer in node.answered if answer.frame["job_id"] == job_id)
            # The hold, and what the machine needs.
            assert shown.at - answered <= hold_ms / 1000 + 1.5
        assert all([await here.is_healthy(node) for node in nodes])


async def test_jobs_go_to_the_node_whose_gpu_has_no_queue(tmp_path: Path, server: RedisProcess, count: int) -> None:
    """Item 3: `gpu_queue_length` says that a node is busy."""
    async with place(tmp_path, server.url, count) as here:
        busy, idle = await here.node(), await here.node()
        await busy.report_queue(6)
        gateway = here.gateway()
        for _ in range(6):
            waited = await gateway.ask(await gateway.open_session(), pcm16(say(MIDDLE)))
            assert waited.text == said(MIDDLE)
        assert (len(busy.jobs), len(idle.jobs)) == (0, 6)


async def test_a_node_is_gone_after_three_of_its_own_intervals_and_alive_while_its_socket_answers(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 6: no heartbeat for longer than three assumed intervals, yet the socket answers pings; a cut is at once."""
    rare = {"nodes__heartbeat_interval_ms": 1_000, "server__ping_interval_ms": 500}
    async with place(tmp_path, server.url, count, **rare) as here:
        node = await here.node(heartbeat_s=600.0, reconnect_s=(600.0, 600.0))
        browser = await here.browser(asks=one_way())
        await browser.say(sentence_of(6), presses_send=True)
        await until(lambda: browser.shown, LONG_S)
        assert await here.is_healthy(node)
        node.cut()
        await until(lambda: not node.is_connected, LONG_S)

        async def is_gone() -> bool:
            about = await here.about(node)
            return about is None or about["state"] != "ready"

        await until(is_gone, LONG_S)


@pytest.mark.parametrize("languages", [37, 99])
async def test_every_pair_of_a_node_with_many_languages_counts(
    tmp_path: Path, server: RedisProcess, count: int, languages: int
) -> None:
    """Item 7."""
    others = [f"{first}{second}" for first in "qvwxy" for second in "abcdefghijklmnopqrstuvwxyz"]
    codes = ("en", "zh", *others[: languages - 2])
    async with place(tmp_path, server.url, count) as here:
        node = await here.node(languages=codes)
        about = await here.about(node)
        assert about["wide_pairs"] == languages * languages
        browser = await here.browser(asks=one_way(codes[-1], codes[-2]))
        await browser.say(MIDDLE, presses_send=True)
        await until(lambda: browser.shown, LONG_S)
        assert browser.texts[0][1] == translation(MIDDLE, codes[-1], codes[-2])
