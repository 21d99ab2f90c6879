"""The last scenes of a client: those that need its program are not tested without it."""

from lingua_scheduler.conformance.book import CheckVerdict
from lingua_scheduler.conformance.client_leaving import LEAVING
from tests.support.kit_talks import client_talk


async def test_without_a_program_only_one_dismissal_is_tested() -> None:
    async with client_talk(is_startable=False) as (talk, _):
        for _, scene in LEAVING:
            await scene(talk)
        assert talk.book.of(CheckVerdict.NOT_TESTED) == ["lost-session", "stops-after-4003", "stops-after-4007"]
        assert "stops-after-4004" in talk.book.of(CheckVerdict.PASSED)


async def test_a_client_that_was_dismissed_is_started_again() -> None:
    async with client_talk() as (talk, client):
        scenes = dict(LEAVING)
        await scenes["stops-after-4007"](talk)
        assert "stops-after-4007" in talk.book.of(CheckVerdict.PASSED)
        assert client.is_running
