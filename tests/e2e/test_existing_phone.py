"""The mobile app in the field: pieces of 200 ms are chunks of one utterance, on one instance and on two."""

from pathlib import Path

import pytest

from tests.support.field_mind import translation
from tests.support.field_places import LONG_S, place
from tests.support.field_speech import sentence_of
from tests.support.servers import RedisProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"]), pytest.mark.slow]


async def test_four_seconds_of_speech_make_one_job(tmp_path: Path, server: RedisProcess, count: int) -> None:
    """Item 13."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node()
        phone = await here.phone()
        text = sentence_of(4)
        await phone.say(text)
        await until(lambda: phone.results, LONG_S)
        assert [frame["text_translated"] for _, frame in phone.results] == [translation(text, "en", "zh")]
        assert [node.text_of(job) for job in node.jobs] == [text]
        assert not phone.missing
        assert not phone.errors


async def test_a_phone_that_comes_back_counts_on_and_is_heard(tmp_path: Path, server: RedisProcess, count: int) -> None:
    """Item 13: its indexes go on over reconnects."""
    async with place(tmp_path, server.url, count) as here:
        await here.node()
        phone = await here.phone()
        texts = [sentence_of(2), sentence_of(3, start=10)]
        await phone.say(texts[0])
        await until(lambda: len(phone.results) == 1, LONG_S)
        first = phone.session_id
        phone.cut()
        await until(lambda: phone.session_id and phone.session_id != first, LONG_S)
        await phone.say(texts[1])
        await until(lambda: len(phone.results) == 2, LONG_S)
        assert [frame["text_asr"] for _, frame in phone.results] == texts
        assert not phone.errors
