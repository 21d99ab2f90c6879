"""The web page in the field keeps talking, shows everything once, and comes back, on one instance and on two."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.support.field_browser import FieldBrowser, Sentence, one_way, two_way
from tests.support.field_microphone import FRAME_S, Recorder
from tests.support.field_mind import SHORTEST_TRANSLATED, translation
from tests.support.field_node import FieldNode
from tests.support.field_places import LONG_S, place
from tests.support.field_speech import NOISE, SILENCE, Slice, sentence_of
from tests.support.servers import RedisProcess
from tests.support.waiting import lateness, until

pytestmark = [pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"]), pytest.mark.slow]
MIDDLE = "bravo charlie delta echo"
# The issue's own limit, between the node's answer and the page.
DELIVERED_WITHIN_S = 1.5


def said(text: str, source: str = "en", target: str = "zh") -> str:
    return translation(text, source, target)


async def finals_are_out(browser: FieldBrowser, count: int = 5) -> None:
    await until(
        lambda: len([sent for sent in browser.sent if sent.is_final]) >= count, LONG_S, "finals after the final"
    )


@pytest.mark.parametrize("room", [SILENCE, NOISE], ids=["digital silence", "room noise"])
async def test_finals_over_silence_make_no_job_and_use_no_index(
    tmp_path: Path, server: RedisProcess, count: int, room: Slice
) -> None:
    """Item 8."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node()
        browser = await here.browser(Recorder(room))
        await browser.say(MIDDLE)
        await finals_are_out(browser)
        await browser.say("kilo lima mike november", presses_send=True)
        await until(lambda: len(browser.shown) == 2, LONG_S)
        assert len(node.jobs) == 2
        assert [shown.frame["utterance_index"] for shown in browser.shown] == [0, 1]
        assert not browser.missing


async def test_in_a_loud_room_a_pause_in_speech_ends_the_sentence(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 8: frames go on and no final comes."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node()
        browser = await here.browser(Recorder(NOISE, room_is_loud=True))
        await browser.say("alpha bravo charlie delta echo")
        await until(lambda: browser.shown, LONG_S)
        assert not any(sent.is_final for sent in browser.sent)
        assert len(node.jobs) == 1


async def test_silence_at_the_end_does_not_count_towards_the_longest_speech(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 8: 8 s of speech and 3 s of silence are one job."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node()
        browser = await here.browser(Recorder(NOISE))
        text = sentence_of(8)
        await browser.say(text)
        await finals_are_out(browser)
        await until(lambda: browser.shown, LONG_S)
        assert browser.texts == [(text, said(text))]
        assert len(node.jobs) == 1


async def test_the_frame_in_the_making_belongs_to_the_utterance_being_finalised(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 8: it comes up to 256 ms after the final of the send button."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node()
        browser = await here.browser()
        texts = [sentence_of(2, start=start) for start in (0, 4, 8)]
        for text in texts:
            await browser.say(text, presses_send=True)
            await asyncio.sleep(2 * FRAME_S)
        await until(lambda: len(browser.shown) == 3, LONG_S)
        assert [heard for heard, _ in browser.texts] == texts
        assert [node.text_of(job) for job in node.speech_jobs()] == texts


@pytest.mark.parametrize("audio_format", ["pcm16", "opus"])
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
async def test_every_codec_of_the_page_is_understood(
    tmp_path: Path, server: RedisProcess, count: int, audio_format: str, binary: bool
) -> None:
    """PCM16 although Opus was negotiated, and binary frames when the scheduler asks for them."""
    async with place(tmp_path, server.url, count, sessions__use_binary_frame=binary) as here:
        node = await here.node()
        browser = await here.browser(Recorder(SILENCE, audio_format=audio_format))
        await browser.say(MIDDLE, presses_send=True)
        await until(lambda: browser.shown, LONG_S)
        assert browser.texts == [(MIDDLE, said(MIDDLE))]
        assert node.speech_jobs()[0]["audio_format"] == audio_format


async def test_a_failed_utterance_raises_no_alert(tmp_path: Path, server: RedisProcess, count: int) -> None:
    """Item 9: nobody serves it, so it goes out as `missing_result` and `ui_event`."""
    async with place(tmp_path, server.url, count, dispatch__queue_wait_ms=500) as here:
        browser = await here.browser()
        await browser.say(MIDDLE, presses_send=True)
        await until(lambda: browser.missing, LONG_S)
        events = [frame for frame in browser.heard if frame["type"] == "ui_event"]
        assert any(event["status"] == "error" for event in events)
        assert not browser.alerts


async def test_invalid_base64_is_an_empty_chunk(tmp_path: Path, server: RedisProcess, count: int) -> None:
    """Item 9: no `error`, and the sentence around it is translated."""
    async with place(tmp_path, server.url, count) as here:
        await here.node()
        browser = await here.browser()
        await browser.send_raw_chunk("%%%")
        await browser.say(MIDDLE, presses_send=True)
        await until(lambda: browser.shown, LONG_S)
        assert browser.texts == [(MIDDLE, said(MIDDLE))]
        assert not browser.alerts


@pytest.mark.parametrize("doubles", [False, True], ids=["one recorder", "two recorders"])
async def test_after_a_reconnect_nothing_is_hidden(
    tmp_path: Path, server: RedisProcess, count: int, doubles: bool
) -> None:
    """Item 10: the indexes of the new session start at its first `seq`."""
    async with place(tmp_path, server.url, count) as here:
        await here.node()
        browser = await here.browser(doubles_recorder=doubles)
        await browser.say(MIDDLE, presses_send=True)
        await until(lambda: browser.shown, LONG_S)
        first = browser.session_id
        browser.cut()
        await until(lambda: browser.session_id and browser.session_id != first, LONG_S)
        await browser.say("kilo lima mike november", presses_send=True)
        await until(lambda: len(browser.shown) == 2, LONG_S)
        first_seq = next(sent.seq for sent in browser.sent if sent.session_id == browser.session_id)
        assert browser.shown[1].frame["utterance_index"] == first_seq > 0
        assert not browser.hidden


async def test_a_refused_page_is_closed_with_1013_and_tries_again(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 11: full."""
    async with place(tmp_path, server.url, count, server__max_sessions=1, sessions__grace_ms=0) as here:
        first = await here.browser()
        second = FieldBrowser(here.clients_at.port)
        second.open()
        try:
            await until(lambda: second.close_codes, LONG_S)
            assert second.close_codes[0] == 1013
            await first.stop()
            await until(lambda: second.session_id, LONG_S, "it tried again")
        finally:
            await second.stop()


async def test_a_page_that_sends_too_much_is_only_ever_asked_to_pause(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 12."""
    async with place(tmp_path, server.url, count, sessions__max_audio_bytes=40_000) as here:
        await here.node(lambda job: 8.0)
        browser = await here.browser(Recorder(SILENCE, audio_format="pcm16"))
        await browser.say(sentence_of(4), presses_send=True)
        await until(lambda: [frame for frame in browser.heard if frame["type"] == "backpressure"], LONG_S)
        assert {frame["action"] for frame in browser.heard if frame["type"] == "backpressure"} == {"PAUSE"}
        assert not browser.is_frozen


# The conversation

Spoken = tuple[str, str]
QUIET: list[Spoken] = [(sentence_of(2), "en"), (sentence_of(2), "en"), (sentence_of(8, start=9), "en")]
CHINESE: list[Spoken] = [(sentence_of(4, "zh"), "zh"), (sentence_of(2, start=30), "en"), ("yes", "en")]


@pytest.mark.timeout(300)
async def test_a_conversation_comes_back_complete_and_in_order(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Sentences of 2, 8, 18 and 24 s, a repeated one, five words in room noise, three letters, two languages."""
    conversations: list[tuple[Recorder, list[Spoken]]] = [
        (Recorder(SILENCE), QUIET),
        (Recorder(NOISE), CHINESE),
        (Recorder(NOISE), [(sentence_of(18, start=3), "en")]),
        (Recorder(SILENCE), [(sentence_of(24), "en")]),
        (Recorder(NOISE, room_is_loud=True), [("alpha bravo charlie delta echo", "en")]),
    ]
    async with place(tmp_path, server.url, count) as here:
        node = await here.node(0.02)
        pages = [await here.browser(recorder, two_way()) for recorder, _ in conversations]
        async with lateness() as late:
            await asyncio.gather(
                *(converse(page, spoken) for page, (_, spoken) in zip(pages, conversations, strict=True)),
            )
            for page, (_, spoken) in zip(pages, conversations, strict=True):
                await until(partial(is_complete, page, spoken), LONG_S, f"all of {spoken}")
        print_table(node, pages)
        for page, (_, spoken) in zip(pages, conversations, strict=True):
            assert words_of(page) == words_expected(spoken)
            assert all(is_translated(*texts) for texts in page.texts)
            assert not page.alerts
            for shown in page.shown:
                took_s = shown.at - node.answered_at(shown.frame["job_id"])
                assert took_s <= DELIVERED_WITHIN_S + 10 * late.most_s, (
                    f"the machine itself was up to {late.most_s:.2f} s late"
                )
        # One job a sentence; three parts of 24 s, two of 18 s.
        parts = sum(-(-len(text.split()) // 20) for _, spoken in conversations for text, _ in spoken)
        assert len(node.jobs) <= parts
        assert await here.is_healthy(node)


async def converse(page: FieldBrowser, spoken: list[Spoken]) -> None:
    """One after the other, with the pause in which the finals come."""
    for number, (text, language) in enumerate(spoken):
        await page.say(text, language)
        if number < len(spoken) - 1:
            await finals_are_out(page, 5 * (number + 1))


def words_expected(spoken: list[Spoken]) -> list[str]:
    """All but a repeated sentence, to which the node says nothing."""
    texts = [text for text, _ in spoken]
    once = [text for place, text in enumerate(texts) if place == 0 or texts[place - 1] != text]
    return " ".join(once).split()


def words_of(page: FieldBrowser) -> list[str]:
    """What the page shows in its order; a word on both sides of a cut is heard twice."""
    words = " ".join(heard for heard, _ in page.texts).split()
    return [word for place, word in enumerate(words) if place == 0 or words[place - 1] != word]


def is_translated(heard: str, translated: str) -> bool:
    """Into the other language, unless it is too short for the node."""
    if len(heard) < SHORTEST_TRANSLATED:
        return translated == ""
    return translated == (said(heard) if heard.isascii() else said(heard, "zh", "en"))


def shows(page: FieldBrowser, text: str) -> bool:
    return (text, said(text)) in page.texts


def is_complete(page: FieldBrowser, spoken: list[Spoken]) -> bool:
    last = spoken[-1][0].split()[-1]
    return bool(page.texts) and page.texts[-1][0].split()[-1:] == [last]


def print_table(node: FieldNode, pages: list[FieldBrowser]) -> None:
    print("\nend of speech  node's answer  delivered  (s after the first word)  text")
    for page in pages:
        for shown in page.shown:
            sentence = of(page, shown.frame["text_asr"])
            answered = node.answered_at(shown.frame["job_id"])
            times = (moment - page.sentences[0].began_at for moment in (sentence.ended_at, answered, shown.at))
            print("  ".join(f"{moment:11.2f}" for moment in times), f" {shown.frame['text_asr'][:40]}")


def of(page: FieldBrowser, heard: str) -> Sentence:
    """The sentence these words are of."""
    return next((sentence for sentence in page.sentences if heard in sentence.text), page.sentences[-1])


async def test_nothing_is_sent_while_speech_is_played_and_the_next_sentence_is_whole(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 8."""
    async with place(tmp_path, server.url, count) as here:
        await here.node()
        browser = await here.browser(asks=one_way())
        for text in (MIDDLE, "kilo lima mike november"):
            await browser.say(text, presses_send=True)
            await until(partial(shows, browser, text), LONG_S)
            await browser.play()
        assert len(browser.shown) == 2
