"""Waiting for a peer, which may have ended."""

import aiohttp
import pytest

from lingua_scheduler.conformance.checks import PeerProfile
from lingua_scheduler.conformance.listening import listening
from lingua_scheduler.conformance.play import Play, arriving
from tests.support.ended_program import EndedProgram

LONG_S = 3_600.0


@pytest.mark.parametrize("profile", PeerProfile)
def test_a_reconnect_may_take_longer_than_an_answer(profile: PeerProfile) -> None:
    play = Play(profile, 10.0, 60.0, b"", lambda _: None)
    assert play.reconnect_within_s > 10.0
    assert play.refusals > 1


async def test_a_program_that_has_ended_is_not_waited_for() -> None:
    async with listening("127.0.0.1", 0, "/ws") as door:
        assert await arriving(door, EndedProgram(), LONG_S) is None


async def test_without_a_program_only_the_time_ends_the_wait() -> None:
    async with listening("127.0.0.1", 0, "/ws") as door, aiohttp.ClientSession() as http:
        assert await arriving(door, None, 0.01) is None
        async with http.ws_connect(f"http://127.0.0.1:{door.port}/ws"):
            assert await arriving(door, None, LONG_S) is not None
