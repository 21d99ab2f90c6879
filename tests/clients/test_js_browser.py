"""The JavaScript client in Chromium, as the modules that were built: a microphone, playback and broken sockets."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.breaking import Proxy
from tests.support.browser import browser, microphone, page_of
from tests.support.cutting import Cut, Cutter
from tests.support.peers import Field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.spoken_page import page_server
from tests.support.talking import Recorder, recording_node
from tests.support.tones import pitch_hz, silence, tone, write_wav
from tests.support.waiting import until

SPEAK = """
async ({ url, count }) => {
  const { connect } = await import("/client/index.js");
  const session = await connect({ url, source: "en", target: "zh" });
  for (let i = 0; i < count; i++) await session.utterance(new Int16Array(3200).fill(256));
  await session.finish();
  const indexes = [];
  for await (const { index, kind } of session) indexes.push([index, kind]);
  return indexes;
}
"""
# The sound of the microphone as it is, without what a browser does for people's ears.
TALK = """
async ({ url }) => {
  const [{ connect }, { openMicrophone }, { playResults }] = await Promise.all(
    ["index", "microphone", "playback"].map((name) => import(`/client/${name}.js`)),
  );
  const session = await connect({ url, source: "en", target: "zh" });
  window.results = [];
  window.steps = [];
  session.on("result", ({ index, translated }) => results.push([index, translated]));
  session.on("progress", ({ step }) => steps.push(step));
  session.on("resumed", () => steps.push("RESUMED"));
  await playResults(session).wake();
  const constraints = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const microphone = await openMicrophone({ constraints });
  window.levels = [];
  microphone.talk(session, { onLevel: (level) => levels.push(level) });
}
"""


async def test_nothing_is_lost_and_nothing_comes_twice_when_the_socket_breaks_at_any_step(
    built: Path, peers: Field
) -> None:
    node = await peers.node()
    async with page_server(built) as origin, browser() as opened, page_of(opened) as page:
        await page.goto(origin)
        kinds = ("session_init_ack", "utterance", "translation_result", "session_close", "session_close_ack")
        for number, cut in enumerate((Cut(kind, is_before) for kind in kinds for is_before in (True, False)), 1):
            async with Cutter(peers.port, cut, cut) as cutter:
                told: Any = await page.evaluate(SPEAK, {"url": f"ws://127.0.0.1:{cutter.port}", "count": 3})
            assert sorted(told) == [[index, "translation"] for index in range(3)], cut
            assert len(node.jobs) == 3 * number, cut


@pytest.mark.parametrize("is_cut", [False, True])
async def test_the_microphone_is_translated_and_played(
    built: Path, server: RedisProcess, tmp_path: Path, is_cut: bool
) -> None:
    # It is heard from when the microphone is opened, which is a moment before it is listened to.
    samples = silence(48_000, 2) + tone(440, 48_000, 3.0) + silence(48_000, 60)
    wav = write_wav(tmp_path / "hum.wav", samples, 48_000)
    recorder = Recorder(tone(330, 16_000, 0.3).tobytes())
    # A busy machine may take longer to come back than the pause that would end the utterance.
    patient = partial(scheduler_on, server.url, sessions__pause_ms=60_000)
    async with page_server(built) as origin, patient(server__allowed_origins=[origin]) as (there, _):
        async with recording_node(there.port, recorder, "en", "zh"), Proxy(there.port) as proxy:
            async with browser(*microphone(wav), "--autoplay-policy=no-user-gesture-required") as opened:
                async with page_of(opened) as page:
                    await page.goto(origin)
                    await page.evaluate(TALK, {"url": f"ws://127.0.0.1:{proxy.port}"})
                    if is_cut:
                        await page.wait_for_function("steps.includes('INPUT_STARTED')")
                        proxy.is_cut = True
                        await page.wait_for_function("levels.length >= 15")
                        proxy.is_cut = False
                    await page.wait_for_function("steps.includes('TTS_PLAY_ENDED')")
                    steps: Any = await page.evaluate("steps")
                    results: Any = await page.evaluate("results")
    assert results == [[0, "<b>said</b> 1 in zh"]]
    assert ("RESUMED" in steps) is is_cut
    assert "TTS_PLAY_STARTED" in steps
    heard = memoryview(recorder.audio).cast("h")
    # The lead and the pause after it are heard too.
    assert 2.8 * 16_000 <= len(heard) <= 4.5 * 16_000
    assert pitch_hz(list(heard[16_000:32_000]), 16_000) == pytest.approx(440, rel=0.01)
    await until(lambda: len(recorder.jobs) == 1)


UNPLUGGED = """
async () => {
  const { openMicrophone } = await import("/client/microphone.js");
  const microphone = await openMicrophone();
  const told = [];
  const heard = new Promise((done) => {
    const session = { send: async (samples, isFinal) => (told.push(isFinal ? "final" : "part"), done()) };
    microphone.talk(session, { detect: "all", onError: ({ name, code }) => told.push(`${name} ${code}`) });
  });
  await heard;
  // What a browser does when the device goes, or the person takes the permission back.
  for (const track of microphone.stream.getAudioTracks()) track.dispatchEvent(new Event("ended"));
  while (!told.includes("final")) await new Promise((done) => setTimeout(done, 50));
  return [told.filter((one) => one !== "part"), microphone.isOn];
}
"""


async def test_a_microphone_that_is_unplugged_ends_the_sentence_and_is_an_error(built: Path, tmp_path: Path) -> None:
    wav = write_wav(tmp_path / "hum.wav", tone(440, 48_000, 60), 48_000)
    async with page_server(built) as origin, browser(*microphone(wav)) as opened, page_of(opened) as page:
        await page.goto(origin)
        assert await page.evaluate(UNPLUGGED) == [["NoMicrophone NONE", "final"], False]
