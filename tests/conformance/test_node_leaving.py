"""The last scenes of a node: those that need its program are not tested without it."""

from lingua_scheduler.conformance.book import CheckVerdict
from lingua_scheduler.conformance.node_leaving import LEAVING
from tests.support.kit_talks import node_talk


async def test_without_a_program_only_one_dismissal_is_tested() -> None:
    async with node_talk(is_startable=False) as (talk, _):
        for _, scene in LEAVING:
            await scene(talk)
        assert talk.book.of(CheckVerdict.NOT_TESTED) == ["leaves", "stops-after-4003"]
        assert "stops-after-4004" in talk.book.of(CheckVerdict.PASSED)


async def test_a_node_that_leaves_is_started_again() -> None:
    async with node_talk() as (talk, node):
        scenes = dict(LEAVING)
        await scenes["leaves"](talk)
        assert "leaves" in talk.book.of(CheckVerdict.PASSED)
        assert node.is_running
