"""Calls of the HTTP API, against a real scheduler: answers and refusals. With keys: test_access.py."""

import json

import pytest

from lingua_sdk.http import Absent, Refused, get, post
from tests.support.peers import Field


async def test_answers_and_refusals_in_the_words_of_the_scheduler(peers: Field) -> None:
    address = f"127.0.0.1:{peers.port}"
    assert json.loads(await get(address, "/v1/status"))["sessions"] == 0
    with pytest.raises(Absent, match="gpu-7"):
        await post(address, "/v1/nodes/gpu-7/drain", b"{}")
    with pytest.raises(Refused, match="older than this command"):
        await get(address, "/v1/nothing")
