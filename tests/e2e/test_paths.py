"""The files that docs/paths.md lists really run, and each frame and body is decoded once."""

import base64
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import lingua_scheduler
import lingua_sdk
from tests.support.peers import FakeNode, Field, Frame, acknowledgement, answer, heartbeat
from tests.support.waiting import until

SCHEDULER = f"{Path(lingua_scheduler.__file__).parent}/"
SDK = f"{Path(lingua_sdk.__file__).parents[1]}/"
PAGE = Path(__file__).parents[2] / "docs" / "paths.md"


class Watched:
    """The files of the source that ran, and how many decodings the codec did."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.decodes = 0

    def see(self, frame: FrameType, event: str, called: Any) -> None:
        path = frame.f_code.co_filename
        if not path.startswith((SCHEDULER, SDK)):
            return
        name = path.removeprefix(SCHEDULER).removeprefix(SDK)
        if event == "call":
            self.files.add(name)
        elif event == "c_call" and name == "lingua_sdk/protocol/codec.py":
            is_json = isinstance(getattr(called, "__self__", None), msgspec.json.Decoder)
            self.decodes += is_json and called.__name__ == "decode"

    async def whole(self, title: str) -> None:
        """Wait until all files of a section have run."""
        _, _, rest = PAGE.read_text("utf-8").partition(f"\n## {title}\n")
        listed = set(re.findall(r"[\w/]+\.py\b", rest.partition("\n## ")[0]))
        assert listed
        try:
            await until(lambda: listed <= self.files)
        except AssertionError:
            raise AssertionError(f"listed, but did not run: {sorted(listed - self.files)}") from None


@contextmanager
def watched() -> Iterator[Watched]:
    seen, before = Watched(), sys.getprofile()
    sys.setprofile(seen.see)
    try:
        yield seen
    finally:
        sys.setprofile(before)


async def acknowledge_and_answer(node: FakeNode, job: Frame) -> None:
    await node.socket.send(acknowledgement(job, node.node_id))
    await answer(node, job)


async def test_the_path_of_an_utterance(peers: Field) -> None:
    await peers.node(acknowledge_and_answer)
    client = await peers.client()
    # The node's first heartbeat is read before its first result.
    await client.utterance(0)
    await client.outcome()
    with watched() as seen:
        await client.utterance(1)
        assert (await client.outcome())["type"] == "translation_result"
        await seen.whole("One utterance")
    # The client's frame, the acknowledgement, the result.
    assert seen.decodes == 3


async def test_the_path_of_a_heartbeat(peers: Field) -> None:
    node = await peers.node()
    client = await peers.client()
    await client.utterance(0)
    await client.outcome()
    with watched() as seen:
        await node.socket.send(heartbeat(node.node_id))
        await seen.whole("One heartbeat")
    assert seen.decodes == 1


async def test_the_path_of_an_http_dispatch(peers: Field) -> None:
    await peers.node()
    audio = base64.b64encode(b"\x00\x01" * 320).decode()
    call = {"session_id": "kiosk", "src_lang": "en", "tgt_lang": "zh", "audio": audio}

    async def dispatch(request_id: str) -> None:
        _, placed = await peers.post("/v1/dispatch/f2f", call | {"request_id": request_id})
        _, fetched = await peers.get(f"/v1/jobs/{placed['job_id']}/result?wait_ms=10000")
        assert fetched["state"] == "DONE"

    await dispatch("first")
    with watched() as seen:
        await dispatch("second")
        await seen.whole("One HTTP dispatch")
    # The body, the node's result.
    assert seen.decodes == 2
