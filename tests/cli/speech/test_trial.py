"""One pair after the other is tried, each within a time limit."""

import asyncio
import time
from typing import Any

import pytest

from lingua_scheduler.cli.speech.own_engines import OwnEngine
from lingua_scheduler.cli.speech.trial import Trial, Trials, allowed_ms
from lingua_scheduler.setting_sections.jobs import JobSettings
from lingua_sdk.audio import Audio
from lingua_sdk.engines import Abilities, JobOutput
from lingua_sdk.node import more_time
from lingua_sdk.pipeline import Pipeline
from tests.support.toys import Ears, Mind, Voice

JOB = JobSettings(timeout_base_ms=15_000, timeout_factor=2.0, timeout_max_ms=20_000, deadline_ms=50_000)
SECOND = Audio(bytes(32_000))
# An engine that hangs must end some time, because the test process lives on.
HANGS_S = 5.0


def tried(engine: Any, *pairs: tuple[str, str], given: Abilities | None = None, timeout_s: float = 20) -> list[Trial]:
    own = OwnEngine(engine, given)
    with Trials(own, timeout_s) as trials:
        able = trials.loaded()
        return [trials.attempt(pair, able, SECOND) for pair in pairs]


class Mute(Voice):
    def speak(self, text: str, language: str) -> Audio:
        return Audio(b"")


@pytest.mark.parametrize("heard", ["hello", ""])
def test_how_many_seconds_of_speech_came_out_is_known(heard: str) -> None:
    ears = Ears(heard=heard)
    [spoken] = tried(Pipeline(ears, None, Mind(), Voice()), ("en", "zh"))
    assert (spoken.test.problem, spoken.test.heard, spoken.test.speech_s) == ("", bool(heard), 1.0)
    [silent] = tried(Pipeline(ears, None, Mind(), Mute()), ("en", "zh"))
    assert (silent.test.problem, silent.test.speech_s) == ("", 0.0)


class Whole:
    name = "whole"

    async def translate(self, job: Any, partial: Any) -> Any:
        return await self.made(job)

    async def made(self, job: Any) -> Any:
        return JobOutput("a", "b", bytes(16_000))


ABLE = Abilities(["en"], ["en"], ["pt"])


def test_also_of_an_engine_that_does_everything() -> None:
    [found] = tried(Whole(), ("en", "pt"), given=ABLE)
    assert (found.test.problem, found.test.speech_s) == ("", 0.5)


class Endless(Whole):
    async def made(self, job: Any) -> Any:
        if job.tgt_lang == "pt":
            await asyncio.Event().wait()
        return await super().made(job)


class Blocking(Whole):
    async def made(self, job: Any) -> Any:
        time.sleep(HANGS_S)  # noqa: ASYNC251 - a mistake of an engine, which stops the whole event loop


def test_an_engine_that_waits_for_ever_fails_its_pair_alone() -> None:
    endless, works = tried(Endless(), ("en", "pt"), ("en", "es"), given=ABLE, timeout_s=0.1)
    assert endless.test.problem == "not done after 0.1 s (--timeout)"
    assert (works.test.problem, works.test.speech_s) == ("", 0.5)


@pytest.mark.parametrize(
    ("engine", "given"),
    [
        (Pipeline(Ears(work=lambda: time.sleep(HANGS_S)), None, Mind(("en", "pt"), ("en", "es")), Voice()), None),
        (Blocking(), ABLE),
    ],
)
def test_after_an_engine_that_cannot_be_stopped_no_other_pair_is_tried(engine: Any, given: Abilities | None) -> None:
    began_s = time.monotonic()
    endless, skipped = tried(engine, ("en", "pt"), ("en", "es"), given=given, timeout_s=0.1)
    assert endless.test.problem == "not done after 0.1 s (--timeout)"
    assert skipped.test.problem == "not tried: the engine is still busy with en → pt"
    assert time.monotonic() - began_s < HANGS_S


@pytest.mark.parametrize(
    ("audio_s", "asked", "allowed"),
    [
        (1.0, [], 17_000),
        (9.0, [], 20_000),
        (1.0, [(1_000.0, 30.0)], 31_000),
        (1.0, [(1_000.0, 5.0)], 17_000),
        (1.0, [(18_000.0, 30.0)], 17_000),
        (1.0, [(10_000.0, 30.0), (30_000.0, 60.0)], 50_000),
    ],
)
def test_what_a_scheduler_allows_a_job(audio_s: float, asked: list[tuple[float, float]], allowed: float) -> None:
    assert allowed_ms(JOB, audio_s, asked) == allowed


def test_an_engine_that_asks_for_more_time_is_allowed_more() -> None:
    [hasty] = tried(Pipeline(Ears(), None, Mind(), Voice()), ("en", "zh"))
    [slow] = tried(Pipeline(Ears(work=lambda: more_time(40)), None, Mind(), Voice()), ("en", "zh"))
    assert hasty.allowed_ms == allowed_ms(JobSettings(), 1.0, [])
    assert slow.allowed_ms >= 40_000


def test_an_error_of_loading_is_raised() -> None:
    class Broken(Whole):
        async def load(self) -> None:
            raise OSError("weights are cut short")

    with pytest.raises(OSError, match="cut short"):
        tried(Broken(), given=ABLE)
