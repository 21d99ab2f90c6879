"""How engines are called: one at a time, in batches, in threads."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from lingua_sdk.calling import EngineCalls
from lingua_sdk.failures import BrokenContract
from lingua_sdk.threads import Threads
from tests.support.waiting import until


def calls() -> EngineCalls:
    return EngineCalls(Threads(4, "test"))


class Counting:
    """Counts the calls that are in it at once; each waits until it may go on."""

    def __init__(self, concurrency: int | None = None) -> None:
        self.concurrency = concurrency
        self.inside = self.most = 0
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def translate(self, text: str, source: str, target: str) -> str:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.go_on.wait(20)
        with self._lock:
            self.inside -= 1
        return text.upper()


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (2, 2), (None, 3)])
async def test_an_engine_gets_as_many_calls_at_once_as_it_bears(concurrency: int | None, most: int) -> None:
    engine, calling = Counting(concurrency), calls()
    asking = [asyncio.create_task(calling.ask(engine, "e", "translate", text, "en", "pt")) for text in "abc"]
    await until(lambda: engine.inside == most)
    engine.go_on.set()
    assert await asyncio.gather(*asking) == ["A", "B", "C"]
    assert engine.most == most


class Batching:
    batch_size = 3

    def __init__(self, made: Any = None) -> None:
        self.batches: list[tuple[Sequence[str], str, str]] = []
        self.made = made

    async def translate_batch(self, texts: Sequence[str], source: str, target: str) -> Any:
        self.batches.append((texts, source, target))
        await asyncio.sleep(0)
        if isinstance(self.made, Exception):
            raise self.made
        return [text.upper() for text in texts] if self.made is None else self.made


async def test_what_waits_goes_in_one_call_with_others_of_its_languages() -> None:
    engine, calling = Batching(), calls()
    asked = [("a", "pt"), ("b", "pt"), ("c", "es"), ("d", "pt"), ("e", "pt")]
    made = await asyncio.gather(*(calling.ask(engine, "e", "translate", text, "en", to) for text, to in asked))
    assert made == ["A", "B", "C", "D", "E"]
    assert engine.batches == [(["a", "b", "d"], "en", "pt"), (["c"], "en", "es"), (["e"], "en", "pt")]


async def test_a_batch_that_fails_fails_each_of_its_inputs_and_the_next_one_works() -> None:
    engine, calling = Batching(made=OSError("no")), calls()
    found = await asyncio.gather(
        *(calling.ask(engine, "e", "translate", text, "en", "pt") for text in "ab"), return_exceptions=True
    )
    assert [type(error) for error in found] == [OSError, OSError]
    engine.made = ["only one"]
    with pytest.raises(BrokenContract):
        await asyncio.gather(*(calling.ask(engine, "e", "translate", text, "en", "pt") for text in "ab"))
    engine.made = None
    assert await calling.ask(engine, "e", "translate", "z", "en", "pt") == "Z"


async def test_who_is_cancelled_leaves_the_batch_to_the_others() -> None:
    engine, calling = Batching(), calls()
    asking = [asyncio.create_task(calling.ask(engine, "e", "translate", text, "en", "pt")) for text in "abc"]
    await asyncio.sleep(0)
    asking[1].cancel()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert (found[0], found[2]) == ("A", "C")
    assert engine.batches == [(["a", "c"], "en", "pt")]


@pytest.mark.parametrize("method", ["translate", "repair"])
async def test_a_limit_that_became_unusable_fails_the_call_and_no_call_waits_for_ever(method: str) -> None:
    class Changed(Counting):
        batch_size: Any = "one"

        async def repair_batch(self, texts: Sequence[str], language: str) -> list[str]:
            return list(texts)

    changed: Any = Changed()
    changed.concurrency = 0 if method == "translate" else None
    with pytest.raises(BrokenContract, match=r"Changed\.(concurrency|batch_size) must be an int of at least 1"):
        async with asyncio.timeout(60):
            await calls().ask(changed, "e", method, "a", *["en", "pt"][: 2 if method == "translate" else 1])
