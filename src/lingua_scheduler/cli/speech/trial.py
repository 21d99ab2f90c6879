"""Tries pairs of an engine one after the other, each within a time limit, whatever the engine does meanwhile."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Self, TypeVar

from lingua_scheduler.cli.speech.own_engines import OwnEngine, named, tag
from lingua_scheduler.setting_sections.jobs import JobSettings
from lingua_sdk.audio import Audio
from lingua_sdk.engines import Abilities, Engine
from lingua_sdk.self_test import PairTest, try_pair
from lingua_sdk.time_limits import asking_with

T = TypeVar("T")

# Of a scheduler with default settings.
JOB = JobSettings()
# An engine that can be cancelled ends within this.
CANCELLED_WITHIN_S = 0.5
# And an event loop that is not blocked answers within this.
ANSWERED_WITHIN_S = 1.0


class Trial(NamedTuple):
    """One pair: `allowed_ms` is what a scheduler with default settings allows a job with this audio."""

    test: PairTest
    allowed_ms: float

    @property
    def is_late(self) -> bool:
        return self.test.took_ms > self.allowed_ms


def allowed_ms(job: JobSettings, audio_s: float, asked: Sequence[tuple[float, float]]) -> float:
    """`asked`: after how many milliseconds the engine asked for how many seconds more."""
    allowed = min(job.timeout_base_ms + job.timeout_factor * audio_s * 1000, job.timeout_max_ms)
    for at_ms, seconds in asked:
        if at_ms <= allowed:
            allowed = max(allowed, min(at_ms + seconds * 1000, job.deadline_ms))
    return allowed


class Trials:
    """Engines run on the event loop of a thread of their own, which is left behind if one cannot be stopped."""

    def __init__(self, own: OwnEngine, timeout_s: float) -> None:
        self._own = own
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="trials", daemon=True)
        # The pair that is still being worked on, although its time is over.
        self._stuck_at: tuple[str, str] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._stuck_at is None and kind is not KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def loaded(self) -> Abilities:
        """What the engine can do, once it has loaded its models; that may take as long as it likes."""
        error = self._start(self._own.load()).exception() if hasattr(self._own, "load") else None
        if error is not None:
            # Raised here, so that its traceback has no frames of the future.
            raise error
        return self._own.abilities()

    def attempt(self, pair: tuple[str, str], able: Abilities, audio: Audio) -> Trial:
        if self._stuck_at is not None:
            why = f"not tried: the engine is still busy with {named([self._stuck_at])}"
            return self._failed(pair, able, audio, 0.0, why)
        began_s = time.monotonic()
        asked: list[tuple[float, float]] = []

        def ask(seconds: float) -> None:
            asked.append(((time.monotonic() - began_s) * 1000, seconds))

        test = self._in_time(pair, _trying(self._own.engine, pair, able, audio, ask))
        if test is None:
            took_ms = self._timeout_s * 1000
            return self._failed(pair, able, audio, took_ms, f"not done after {self._timeout_s:g} s (--timeout)")
        return Trial(test, allowed_ms(JOB, audio.seconds, asked))

    def _in_time(self, pair: tuple[str, str], trying: Coroutine[Any, Any, PairTest]) -> PairTest | None:
        limit_s = self._timeout_s + CANCELLED_WITHIN_S + ANSWERED_WITHIN_S
        try:
            test, is_over = self._start(_within(trying, self._timeout_s)).result(limit_s)
        except TimeoutError:
            test, is_over = None, False
        if not is_over:
            self._stuck_at = pair
        return test

    def _start(self, doing: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(doing, self._loop)

    def _failed(self, pair: tuple[str, str], able: Abilities, audio: Audio, took_ms: float, why: str) -> Trial:
        test = PairTest(*pair, pair[1] in map(tag, able.speaks), took_ms, {}, problem=why)
        return Trial(test, allowed_ms(JOB, audio.seconds, []))


async def _within(trying: Coroutine[Any, Any, PairTest], timeout_s: float) -> tuple[PairTest | None, bool]:
    """The result, if it came in time; and whether the engine is idle now."""
    task = asyncio.create_task(trying)
    await asyncio.wait((task,), timeout=timeout_s)
    if task.done():
        return task.result(), True
    task.cancel()
    await asyncio.wait((task,), timeout=CANCELLED_WITHIN_S)
    is_over = task.done()
    # A thread cannot be stopped; what waits for it obeys the second time.
    task.cancel()
    return None, is_over


async def _trying(
    engine: Engine, pair: tuple[str, str], able: Abilities, audio: Audio, ask: Callable[[float], None]
) -> PairTest:
    with asking_with(ask):
        return await try_pair(engine, pair, able, audio.samples)
