"""A private node, and a person of another tenant who was given its pairing code: with the SDK, and with a command."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lingua_sdk import wav
from lingua_sdk.client import Client, SessionFailed, Translation
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.servers import RedisProcess
from tests.support.tenants import Tenants, tenants_at
from tests.support.tones import noise
from tests.support.waiting import PATIENCE_S

SPEECH = noise(3_000) * 10


@pytest.fixture
async def tenants(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Tenants]:
    async with tenants_at(server.url, tmp_path) as found:
        yield found


async def code_of(tenants: Tenants, node_id: str) -> str:
    status, said = await tenants.ask("POST", f"/v1/nodes/{node_id}/pair")
    assert status == 200
    return str(said["code"])


async def test_a_client_with_a_code_is_translated_by_that_node_alone(tenants: Tenants) -> None:
    own, public = await tenants.node("own", "acme", is_private=True), await tenants.node("public")
    key = await tenants.key(KeyKind.SERVICE, tenant="beta")
    address = f"127.0.0.1:{tenants.scheduler.port}"
    code = await code_of(tenants, "own")
    # As a person types it.
    async with (
        asyncio.timeout(PATIENCE_S),
        Client(address, "en", "zh", pairing_code=f" {code.lower()} ", token=key.text) as client,
    ):
        await client.utterance(SPEECH)
        await client.finish()
        assert [type(one) for one in [result async for result in client.results()]] == [Translation]
    assert (len(own.jobs), len(public.jobs)) == (1, 0)

    # It was used: nothing is said to any other node.
    with pytest.raises(SessionFailed, match=r"not paired: INVALID_PAIRING_CODE: .* ask the owner of the node"):
        async with Client(address, "en", "zh", pairing_code=code, token=key.text):
            pass
    with pytest.raises(ValueError, match="'1234' is not a pairing code: eight letters and digits"):
        Client(address, "en", "zh", pairing_code="1234")


async def test_a_paired_client_stays_paired_when_it_comes_back(tenants: Tenants) -> None:
    own, public = await tenants.node("own", "acme", is_private=True), await tenants.node("public")
    key = await tenants.key(KeyKind.SERVICE, tenant="beta")
    address, code = f"127.0.0.1:{tenants.scheduler.port}", await code_of(tenants, "own")
    async with asyncio.timeout(PATIENCE_S), Client(address, "en", "zh", pairing_code=code, token=key.text) as client:
        assert client._line.socket is not None
        await client._line.socket.close()
        await client.utterance(SPEECH)
        await client.finish()
        assert [type(one) for one in [result async for result in client.results()]] == [Translation]
        assert client.times_resumed == 1
    assert (len(own.jobs), len(public.jobs)) == (1, 0)


async def test_a_command_takes_the_code(tenants: Tenants, tmp_path: Path) -> None:
    own = await tenants.node("own", "acme", is_private=True)
    key = await tenants.key(KeyKind.SERVICE, tenant="beta")
    sound = tmp_path / "speech.wav"
    wav.write(sound, SPEECH)
    url = f"ws://127.0.0.1:{tenants.scheduler.port}"

    async def lingua(code: str) -> tuple[int | None, str, str]:
        words = ("translate", str(sound), "--from", "en", "--to", "zh", "--fast", "--json", "--url", url)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "lingua_scheduler", *words, "--pairing-code", code),
            stdout=PIPE,
            stderr=PIPE,
            env={"LINGUA_KEY": key.text, "HOME": str(tmp_path), "PATH": ""},
        )
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    code = await code_of(tenants, "own")
    ended, out, err = await lingua(code)
    assert (ended, err) == (0, "")
    assert "translation_result" in [json.loads(line)["type"] for line in out.splitlines()]
    assert len(own.jobs) == 1
    ended, out, err = await lingua(code)
    assert (ended, out, "INVALID_PAIRING_CODE" in err) == (5, "", True), err
    ended, out, err = await lingua("hello")
    assert (ended, err) == (
        2,
        "lingua: 'hello' is not a pairing code: eight letters and digits, as lingua pair prints it\n",
    )
