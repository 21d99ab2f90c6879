"""The engines of a file, as far as the command line wants them."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from lingua_scheduler.cli.speech.own_engines import OwnEngine
from lingua_sdk.engines import Abilities, JobOutput, to_nobody
from lingua_sdk.pipeline import Pipeline
from tests.support.toys import Ears, Mind, Voice, job


class Whole:
    name = "whole"

    async def translate(self, job: Any, partial: Any) -> JobOutput:
        return JobOutput(job.src_lang)


@pytest.mark.parametrize(("slots", "said"), [(None, 3), (6, 6)])
def test_slots_of_the_command_line_win(slots: int | None, said: int) -> None:
    pipeline = Pipeline(Ears(), translator=Mind(), slots=3)
    assert OwnEngine(pipeline, None, slots=slots).abilities().slots == said
    assert OwnEngine(Whole(), Abilities(["en"], ["en"], [], slots=3), slots=slots).abilities().slots == said


async def test_as_many_jobs_are_really_worked_on_at_once() -> None:
    together = threading.Barrier(3)
    own = OwnEngine(Pipeline(Ears(work=lambda: together.wait(20)), translator=Mind(), slots=1), None, slots=3)
    await asyncio.gather(*(own.translate(job(pipeline={"use_tts": False}), to_nobody) for _ in range(3)))
    assert not together.broken


@pytest.mark.parametrize(
    ("languages", "pairs", "speaks"),
    [
        (None, [("EN", "pt"), ("EN", "es"), ("fr", "pt")], ["pt", "es"]),
        (["en", "pt"], [("EN", "pt")], ["pt"]),
        (["pt", "es"], [], ["pt", "es"]),
    ],
)
def test_only_the_wanted_languages_are_served(
    languages: Sequence[str] | None, pairs: list[tuple[str, str]], speaks: list[str]
) -> None:
    mind = Mind(("EN", "pt"), ("EN", "es"), ("fr", "pt"))
    able = OwnEngine(Pipeline(Ears("EN", "fr"), None, mind, Voice("pt", "es")), None, languages).abilities()
    assert (able.translates, able.speaks) == (pairs, speaks)


def test_any_pair_of_the_wanted_languages_if_no_pairs_are_declared() -> None:
    able = OwnEngine(Whole(), Abilities(["en", "fr"], ["en", "fr"], ["pt"]), ["en", "pt"]).abilities()
    assert able[:4] == (["en"], ["en"], ["pt"], None)


async def test_the_engine_itself_does_the_work_and_its_languages_are_read_again() -> None:
    ears = Ears()
    own = OwnEngine(Pipeline(ears, translator=Mind(("en", "pt"), ("fr", "pt"))), None)
    assert own.abilities().recognises == ["en"]
    ears.languages = ["fr"]
    assert own.abilities().recognises == ["fr"]
    assert own.name == "pipeline"
    assert callable(own.load)
    assert not hasattr(OwnEngine(Whole(), Abilities(["en"], ["en"], [])), "load")
