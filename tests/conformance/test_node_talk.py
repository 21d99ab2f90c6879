"""The conversation with a node: it is acknowledged, given jobs, and answered."""

from lingua_scheduler.conformance.book import CheckVerdict
from tests.support.kit_talks import LONG_S, node_talk


async def test_a_node_is_met_and_answers_a_job() -> None:
    async with node_talk() as (talk, _):
        assert talk.record.node_id
        job = await talk.assign()
        assert await talk.is_answered("result", job)
        assert (job.src_lang, job.tgt_lang) in (("en", "zh"), ("zh", "en"))
        assert talk.book.of(CheckVerdict.FAILED) == []


async def test_what_is_not_met_in_time_is_false() -> None:
    async with node_talk() as (talk, _):
        assert not await talk.until(lambda: False, 0.01)


async def test_a_node_that_was_cut_is_met_again() -> None:
    async with node_talk() as (talk, _):
        assert talk.line is not None
        talk.line.cut()
        assert await talk.meet(LONG_S)
        assert talk.is_connected
