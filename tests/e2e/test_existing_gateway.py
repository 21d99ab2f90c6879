"""The API gateway in the field gets its answers and never hangs, on one instance and on two."""

import asyncio
from pathlib import Path

import pytest

from tests.support.field_gateway import Waited
from tests.support.field_mind import translation
from tests.support.field_places import LONG_S, Place, place
from tests.support.field_speech import SILENCE, pcm16, say, sentence_of
from tests.support.servers import RedisProcess

pytestmark = [pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"]), pytest.mark.slow]
MIDDLE = "bravo charlie delta echo"


async def ask(here: Place, audio: bytes, session_id: str = "", audio_format: str = "pcm16") -> Waited:
    gateway = here.gateway()
    async with asyncio.timeout(LONG_S):
        # It drops its first socket, and may find the other instance with the second.
        session_id = session_id or await gateway.open_session()
        return await gateway.ask(session_id, audio, audio_format=audio_format, port=here.nodes_at.port)


@pytest.mark.parametrize("seconds", [2, 60])
async def test_the_answer_comes_to_the_socket_that_asked(
    tmp_path: Path, server: RedisProcess, count: int, seconds: int
) -> None:
    """Items 14 and 15: a session outlives its socket, and an utterance may be long."""
    async with place(tmp_path, server.url, count) as here:
        node = await here.node()
        text = sentence_of(seconds)
        waited = await ask(here, pcm16(say(text)))
        assert (waited.ended_by, waited.text) == ("translation_result", translation(text, "en", "zh"))
        assert len(node.jobs) == 1


async def test_several_utterances_of_one_session_each_have_a_socket(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 14."""
    async with place(tmp_path, server.url, count) as here:
        await here.node()
        gateway = here.gateway()
        session_id = await gateway.open_session()
        for index in range(4):
            text = sentence_of(2, start=4 * index)
            async with asyncio.timeout(LONG_S):
                waited = await gateway.ask(session_id, pcm16(say(text)), index)
            assert waited.text == translation(text, "en", "zh")


async def test_beside_a_slow_node_it_is_not_pinged(tmp_path: Path, server: RedisProcess, count: int) -> None:
    """Item 15: 6 s of waiting at an interval of 1 s."""
    async with place(tmp_path, server.url, count, server__ping_interval_ms=1_000) as here:
        await here.node(lambda job: 6.0)
        waited = await ask(here, pcm16(say(MIDDLE)))
        assert (waited.ended_by, waited.text) == ("translation_result", translation(MIDDLE, "en", "zh"))


async def test_after_an_outcome_without_a_result_its_socket_is_closed(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    """Item 15: silence, a format nobody knows, a session nobody knows."""
    async with place(tmp_path, server.url, count) as here:
        await here.node()
        silent = await ask(here, pcm16([SILENCE] * 100))
        unreadable = await ask(here, pcm16(say(MIDDLE)), audio_format="wav")
        unknown = await ask(here, pcm16(say(MIDDLE)), "s-00000000")
        assert [waited.ended_by for waited in (silent, unreadable, unknown)] == ["close"] * 3


async def test_when_nobody_can_do_it_its_socket_is_closed(tmp_path: Path, server: RedisProcess, count: int) -> None:
    """Item 15."""
    async with place(tmp_path, server.url, count, dispatch__queue_wait_ms=500) as here:
        assert (await ask(here, pcm16(say(MIDDLE)))).ended_by == "close"
