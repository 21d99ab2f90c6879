"""A self-test tries every pair that would be served."""

from typing import Any

import pytest

from lingua_sdk.engines import Abilities, JobOutput, ModelNotAvailable
from lingua_sdk.pipeline import Pipeline
from lingua_sdk.self_test import pairs_of, problems_of, try_pair
from tests.support.toys import Ears, Mind, Voice

SAMPLE = bytes(32_000)


def test_the_pairs_are_those_a_scheduler_would_give_jobs_for() -> None:
    assert pairs_of(Abilities(["en", "fr"], ["en"], ["pt"], translates=[("en", "pt"), ("fr", "pt")])) == [("en", "pt")]
    assert pairs_of(Abilities(["en", "fr"], ["en", "fr"], ["fr"])) == [("en", "fr"), ("fr", "en")]
    assert pairs_of(Abilities(["en"], [], ["pt"])) == []


async def test_a_pair_that_works_is_timed_stage_by_stage() -> None:
    pipeline = Pipeline(Ears(), translator=Mind(), speaker=Voice())
    found = await try_pair(pipeline, ("en", "zh"), pipeline.abilities(), SAMPLE)
    assert (found.problem, found.is_spoken, found.heard) == ("", True, True)
    assert set(found.stage_ms) == {"asr", "semantic", "nmt", "tts"}


class Nothing(Mind):
    async def translate(self, text: str, source: str, target: str) -> Any:
        return None


@pytest.mark.parametrize("heard", ["hello", ""])
async def test_a_mistake_is_named_with_its_stage_also_if_the_sample_is_not_understood(heard: str) -> None:
    pipeline = Pipeline(Ears(heard=heard), translator=Nothing(), speaker=Voice())
    found = await try_pair(pipeline, ("en", "zh"), pipeline.abilities(), SAMPLE)
    assert found.problem == "translate: BrokenContract: translate() must return str, got None"
    assert problems_of([found]) == [found]


class Whole:
    name = "whole"

    def __init__(self, made: Any) -> None:
        self.made = made

    async def translate(self, job: Any, partial: Any) -> JobOutput:
        if isinstance(self.made, Exception):
            raise self.made
        return self.made  # type: ignore[no-any-return]


async def test_an_engine_that_does_everything_is_tried_as_a_whole() -> None:
    able = Abilities(["en"], ["en"], [])
    assert (await try_pair(Whole(JobOutput("a", "b")), ("en", "pt"), able, SAMPLE)).problem == ""
    assert "must return JobOutput" in (await try_pair(Whole("a"), ("en", "pt"), able, SAMPLE)).problem
    refused = await try_pair(Whole(ModelNotAvailable("it is unloaded")), ("en", "pt"), able, SAMPLE)
    assert refused.problem == "MODEL_NOT_AVAILABLE: it is unloaded"
