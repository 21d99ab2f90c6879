"""Nodes in processes of their own, made of plain engines that recognise words in made-up sound.

`python -m tests.support.word_nodes ADDRESS NAME SLOTS WORK_S`"""

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lingua_sdk.node import Audio, Node, Pipeline, ShowPartial, run_node
from lingua_sdk.processes import stop
from tests.support.forked import fork_module
from tests.support.worded_sound import END


class Ears:
    languages = ("en", "zh")

    def __init__(self, work_s: float) -> None:
        self._work_s = work_s

    def recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str:
        # Several sentences may have been cut as one.
        words = " ".join(part.strip(b"\0").decode() for part in audio.samples.split(END)[:-1])
        print("began", words, flush=True)
        time.sleep(self._work_s)
        print("ended", words, flush=True)
        return words


class Mind:
    pairs = (("en", "zh"), ("zh", "en"))

    def translate(self, text: str, source: str, target: str) -> str:
        return text.upper()


class Voice:
    languages = ("en", "zh")

    def speak(self, text: str, language: str) -> Audio:
        return Audio(text.encode() + b"." * (len(text.encode()) % 2))


class NodeProcess:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    def said(self, what: str) -> list[str]:
        """The rest of every line that begins like this."""
        lines = self._log.read_text("utf-8", "replace").splitlines()
        return [line[len(what) + 1 :] for line in lines if line.startswith(what)]


@asynccontextmanager
async def word_node(
    folder: Path, port: int, name: str, slots: int = 2, work_s: float = 0.0
) -> AsyncIterator[NodeProcess]:
    log = folder / f"{name}-{len(list(folder.iterdir()))}.log"
    with log.open("wb") as output:
        words = (f"127.0.0.1:{port}", name, str(slots), str(work_s))
        process = await fork_module("tests.support.word_nodes", words, (DEVNULL, output.fileno(), STDOUT), os.environ)
    try:
        yield NodeProcess(process, log)
    finally:
        await stop(process, 15.0)


def main() -> None:
    address, name, slots, work_s = sys.argv[1:]
    engine = Pipeline(Ears(float(work_s)), translator=Mind(), speaker=Voice(), slots=int(slots))
    run_node(Node(address, engine, node_id=name, on_event=lambda *event: print(*event, flush=True)))


if __name__ == "__main__":
    main()
