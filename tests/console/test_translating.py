"""A sound file translated in one request: what comes back, what is refused, and who may ask."""

import asyncio
import base64
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.protocol.uploads import wav_of
from lingua_scheduler.telemetry import metrics
from lingua_sdk import wav
from tests.support.peers import FakeNode, Field, Frame, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.sounds import COMPRESSED, a_minute, compressed, sample_pcm16
from tests.support.waiting import until

PAIR = "src=en&tgt=zh"
SPOKEN = b"\1\0" * 1_600
DOCS = Path(__file__).parents[2] / "docs" / "http-dispatch.md"


class Response(NamedTuple):
    status: int
    body: Any
    headers: Any


class Place:
    def __init__(self, scheduler: Scheduler, peers: Field) -> None:
        self.scheduler = scheduler
        self.peers = peers

    async def send(self, sound: bytes, query: str = PAIR, **headers: str) -> Response:
        names = {"Content-Type": "audio/wav"} | {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{self.scheduler.port}/v1/translate?{query}"
        async with aiohttp.ClientSession() as http, http.post(url, data=io.BytesIO(sound), headers=names) as response:
            is_json = response.content_type == "application/json"
            return Response(response.status, await (response.json() if is_json else response.read()), response.headers)


@pytest.fixture
async def place(server: RedisProcess) -> AsyncIterator[Place]:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        yield Place(scheduler, peers)


def speaking(*formats: str) -> Any:
    """A node that counts the jobs it heard, and speaks in these formats in turn."""
    heard: list[Frame] = []

    async def work(node: FakeNode, job: Frame) -> None:
        heard.append(job)
        name = formats[len(heard) % len(formats)]
        sound = wav_of(SPOKEN) if name == "wav" else SPOKEN
        length = len(base64.b64decode(job["audio"])) // 32
        said = {"text_asr": f"{length} ms", "text_translated": f"{length} 毫秒", "tts_format": name}
        await node.socket.send(result_of(job, node.node_id, tts_audio=base64.b64encode(sound).decode(), **said))

    return work


async def test_a_wav_file_comes_back_as_texts_and_speech(place: Place) -> None:
    await place.peers.node(speaking("pcm16"))
    found = await place.send(wav_of(sample_pcm16()))
    assert found.status == 200, found.body
    said = found.body
    (utterance,) = said["utterances"]
    assert (said["state"], utterance["state"], said["src_lang"], said["tgt_lang"]) == ("DONE", "DONE", "en", "zh")
    assert said["text"] == utterance["text"] == f"{utterance['duration_ms']} ms"
    assert said["translation"] == f"{utterance['duration_ms']} 毫秒"
    assert wav.parse(base64.b64decode(said["speech"])).samples == SPOKEN
    assert said["timing"]["audio_ms"] == pytest.approx(5_800, abs=100)
    assert said["timing"]["total_ms"] >= said["timing"]["decoding_ms"] > 0


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("content_type", ["application/octet-stream", "audio/webm"])
async def test_compressed_files_are_known_by_their_bytes(place: Place, kind: str, content_type: str) -> None:
    await place.peers.node(speaking("pcm16"))
    found = await place.send(compressed(kind, sample_pcm16()), Content_Type=content_type)
    assert (found.status, found.body["state"]) == (200, "DONE")
    assert found.body["timing"]["audio_ms"] == pytest.approx(5_800, abs=150)


async def test_a_minute_of_speech_is_translated_in_order_by_one_node_with_one_slot(place: Place) -> None:
    node = await place.peers.node(speaking("pcm16", "wav"), max_concurrent_jobs=1)
    found = await place.send(wav_of(a_minute()))
    assert (found.status, found.body["state"]) == (200, "DONE")
    utterances = found.body["utterances"]
    assert len(utterances) == len(node.jobs) >= 8
    assert [one["begins_ms"] for one in utterances] == sorted(one["begins_ms"] for one in utterances)
    assert found.body["text"] == " ".join(f"{one['duration_ms']} ms" for one in utterances)
    assert wav.parse(base64.b64decode(found.body["speech"])).samples == SPOKEN * len(utterances)
    assert node.most_at_once == 1


async def test_the_speech_may_be_had_as_a_file(place: Place) -> None:
    await place.peers.node(speaking("pcm16"))
    found = await place.send(wav_of(sample_pcm16()), "src=en-US&tgt=ZH", Accept="audio/wav")
    assert (found.status, found.headers["Content-Type"]) == (200, "audio/wav")
    assert found.headers["Content-Language"] == "zh"
    assert found.headers["Content-Disposition"] == 'attachment; filename="translation-zh.wav"'
    assert wav.parse(found.body).samples == SPOKEN


async def test_text_alone_needs_no_voice(place: Place) -> None:
    node = await place.peers.node(speaking("pcm16"))
    found = await place.send(wav_of(sample_pcm16()), f"{PAIR}&speech=false")
    assert (found.status, "speech" in found.body) == (200, False)
    assert node.jobs[0]["pipeline"]["use_tts"] is False


async def test_a_silent_file_has_no_text_and_makes_no_job(place: Place) -> None:
    node = await place.peers.node(speaking("pcm16"))
    silent = wav_of(b"\0\0" * 32_000)
    found = await place.send(silent)
    assert (found.status, found.body["state"], found.body["utterances"]) == (200, "NO_TEXT", [])
    assert "languages_used" not in found.body
    assert (await place.send(silent, Accept="audio/wav")).status == 204
    assert not node.jobs


async def test_what_was_not_understood_is_not_a_failure(place: Place) -> None:
    async def hear_nothing(node: FakeNode, job: Frame) -> None:
        await node.socket.send(result_of(job, node.node_id, text_asr="", extra={"reason": "ASR_EMPTY"}))

    await place.peers.node(hear_nothing)
    found = await place.send(wav_of(sample_pcm16()))
    assert (found.status, found.body["state"], found.body["utterances"][0]["state"]) == (200, "NO_TEXT", "NO_TEXT")


async def test_what_failed_says_why(place: Place) -> None:
    failed: list[str] = []

    async def fail_once(node: FakeNode, job: Frame) -> None:
        if not failed:
            failed.append(job["job_id"])
            error = {"code": "UNSUPPORTED_FEATURE", "message": "no"}
            await node.socket.send(result_of(job, node.node_id, success=False, error=error))
        else:
            await speaking("pcm16")(node, job)

    await place.peers.node(fail_once)
    found = await place.send(wav_of(a_minute()))
    assert (found.status, found.body["state"]) == (200, "PARTIAL")
    errors = [one["error"]["code"] for one in found.body["utterances"] if "error" in one]
    assert errors == ["UNSUPPORTED_FEATURE"]


async def test_when_all_of_it_failed_the_status_says_so(place: Place) -> None:
    async def fail(node: FakeNode, job: Frame) -> None:
        error = {"code": "UNSUPPORTED_FEATURE", "message": "no"}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    assert problem(await place.send(wav_of(sample_pcm16()))) == (422, "NO_CAPABLE_NODE")
    await place.peers.node(fail)
    assert problem(await place.send(wav_of(sample_pcm16()))) == (502, "UNSUPPORTED_FEATURE")


async def test_a_cancelled_job_says_so(place: Place) -> None:
    node = await place.peers.node(stay_silent)
    sending = asyncio.create_task(place.send(wav_of(sample_pcm16())))
    await until(lambda: node.jobs)
    assert (await place.peers.post(f"/v1/jobs/{node.jobs[0]['job_id']}/cancel"))[0] == 200
    found = await sending
    assert (found.status, found.body["state"]) == (200, "CANCELLED")


async def test_what_is_not_ready_in_time_is_cancelled_and_told(place: Place) -> None:
    node = await place.peers.node(stay_silent)
    assert problem(await place.send(wav_of(sample_pcm16()), f"{PAIR}&timeout_ms=3000")) == (504, "JOB_TIMEOUT")
    assert node.jobs, "it was decoded in time"
    await is_cancelled(place, node)


async def test_when_the_caller_leaves_its_jobs_are_cancelled(place: Place) -> None:
    node = await place.peers.node(stay_silent)
    sending = asyncio.create_task(place.send(wav_of(sample_pcm16())))
    await until(lambda: node.jobs)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await is_cancelled(place, node)
    await until(lambda: not len(place.scheduler._translations._work))
    assert place.scheduler._calls.budget.held_bytes == 0


async def is_cancelled(place: Place, node: FakeNode) -> None:
    job_id = node.jobs[0]["job_id"]

    async def is_over() -> bool:
        return bool((await place.peers.get(f"/v1/jobs/{job_id}"))[1]["state"] == "CANCELLED")

    await until(is_over)


def problem(found: Response) -> tuple[int, str]:
    return found.status, found.body["error"]


@pytest.mark.parametrize("rubbish", [b"\0\1" * 16_000, b"\xff\xff" * 100, b"fLaC" + b"\0" * 100, b'{"a": 1}'])
async def test_what_is_no_sound_file_is_never_taken_for_samples(place: Place, rubbish: bytes) -> None:
    node = await place.peers.node(speaking("pcm16"))
    assert problem(await place.send(rubbish)) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert not node.jobs


async def test_an_empty_body_is_named_with_the_usual_cause(place: Place) -> None:
    found = await place.send(b"")
    assert problem(found) == (400, "INVALID_MESSAGE")
    assert found.body["detail"] == "the body is empty; send a sound file (with curl: --data-binary @FILE)"


async def test_other_content_types_are_refused(place: Place) -> None:
    found = await place.send(wav_of(sample_pcm16()), Content_Type="application/json")
    assert problem(found) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_a_file_in_a_form_is_refused_with_what_to_do(place: Place) -> None:
    found = await place.send(wav_of(sample_pcm16()), Content_Type="multipart/form-data; boundary=x")
    assert problem(found) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "--data-binary @FILE, not -F" in found.body["detail"]


async def test_a_form_is_taken_as_curl_sends_it_but_not_documented(place: Place) -> None:
    """Generated clients would send a form of fields."""
    form = "application/x-www-form-urlencoded"
    _, document = await place.peers.get("/openapi.json")
    told = document["paths"]["/v1/translate"]["post"]["requestBody"]["content"]
    assert "audio/wav" in told
    assert form not in told
    assert (await place.send(wav_of(b"\0\0" * 32_000), Content_Type=form)).status == 200


async def test_a_damaged_file_is_told_from_an_unknown_one(place: Place) -> None:
    assert problem(await place.send(b"RIFF\0\0\0\0WAVEfmt ")) == (422, "UNREADABLE_AUDIO")


async def test_a_query_must_name_both_languages(place: Place) -> None:
    found = await place.send(wav_of(sample_pcm16()), "src=en")
    assert found.body["detail"] == 'query parameter "tgt" is missing'
    found = await place.send(wav_of(sample_pcm16()), f"{PAIR}&timeout_ms=abc")
    assert found.body["detail"] == 'invalid query parameter "timeout_ms": expected int, got str'
    sound = wav_of(sample_pcm16())
    assert problem(await place.send(sound, "src=en")) == (400, "INVALID_MESSAGE")
    assert problem(await place.send(sound, "src=en&tgt=!!")) == (400, "INVALID_MESSAGE")
    assert problem(await place.send(wav_of(b"\0\0"), 'src=en&tgt="')) == (400, "INVALID_MESSAGE")
    assert problem(await place.send(sound, f"{PAIR}&timeout_ms=0")) == (400, "INVALID_MESSAGE")


async def test_languages_may_be_written_in_any_case(place: Place) -> None:
    await place.peers.node(speaking("pcm16"))
    found = await place.send(wav_of(sample_pcm16()), "src=EN&tgt=zh_CN")
    assert (found.status, found.body["state"]) == (200, "DONE")


async def test_an_answer_that_cannot_be_given_is_not_begun(place: Place) -> None:
    node = await place.peers.node(speaking("pcm16"))
    assert problem(await place.send(wav_of(sample_pcm16()), Accept="audio/ogg")) == (406, "NOT_ACCEPTABLE")
    assert not node.jobs


async def test_limits_of_size_and_length_are_kept(server: RedisProcess) -> None:
    changes = {"calls__max_upload_bytes": 200_000, "calls__max_upload_ms": 2_000}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        place = Place(scheduler, peers)
        assert problem(await place.send(wav_of(b"\0\0" * 150_000))) == (413, "BODY_TOO_LARGE")
        assert problem(await place.send(wav_of(b"\0\1" * 40_000))) == (413, "AUDIO_TOO_LONG")


async def test_the_file_that_takes_too_long_to_decode_is_given_up(server: RedisProcess) -> None:
    async with scheduler_on(server.url, calls__decode_timeout_ms=1) as (scheduler, _), field(scheduler.port) as peers:
        found = await Place(scheduler, peers).send(wav_of(sample_pcm16()))
        assert problem(found) == (422, "UNREADABLE_AUDIO")
        assert "too long to decode" in found.body["detail"]


async def test_the_commands_of_the_page_work_as_they_stand(place: Place, tmp_path: Path) -> None:
    if (await run("command -v curl", tmp_path))[0]:
        pytest.skip("curl is not on this machine")
    blocks = re.findall(r"```sh\n(curl '[^\n]*/v1/translate[^\n]*)\n```", DOCS.read_text("utf-8"))
    assert len(blocks) == 2
    await place.peers.node(speaking("pcm16"), languages=("en", "pt"))
    (tmp_path / "speech.wav").write_bytes(wav_of(a_minute()))
    outputs = []
    for block in blocks:
        code, output = await run(block.replace("localhost:5010", f"127.0.0.1:{place.scheduler.port}"), tmp_path)
        assert code == 0, output
        outputs.append(output)
    assert '"state":"DONE"' in outputs[0]
    spoken = wav.parse((tmp_path / "spoken.wav").read_bytes()).samples
    assert len(spoken) >= 8 * len(SPOKEN)


async def run(command: str, folder: Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_shell(
        command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode("utf-8", "replace")


async def test_uploads_are_counted_like_other_audio_that_waits(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, server__max_audio_bytes=10_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        found = await Place(scheduler, peers).send(wav_of(sample_pcm16()))
        assert problem(found) == (503, "NODE_OVERLOADED")
        assert metrics.CALLS._value.get() == 0
