"""A caller over HTTP: asks for a translation, fetches the result."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

SPEECH = b"\x00\x01" * 320


class Answer(NamedTuple):
    status: int
    body: dict[str, Any]
    headers: dict[str, str]


class Caller:
    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http = http
        self._address = f"http://127.0.0.1:{port}"

    async def dispatch(self, speech: bytes | None = SPEECH, **fields: Any) -> Answer:
        body: dict[str, Any] = {"session_id": "caller", "src_lang": "en", "tgt_lang": "zh"}
        if speech is not None:
            body["audio"] = base64.b64encode(speech).decode()
        return await self.post("/v1/dispatch/f2f", body | fields)

    async def post(self, path: str, body: Any) -> Answer:
        async with self._http.post(self._address + path, json=body) as response:
            return Answer(response.status, await response.json(), dict(response.headers))

    async def result(self, job_id: str, wait_ms: int = 0) -> Answer:
        async with self._http.get(f"{self._address}/v1/jobs/{job_id}/result?wait_ms={wait_ms}") as response:
            return Answer(response.status, await response.json(), dict(response.headers))


@asynccontextmanager
async def caller_of(port: int) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        yield Caller(http, port)
