"""The worklet alone, at the rates that sound cards have: pitch, length, and what must not fold back."""

import pytest

from tests.support.browser import browser
from tests.support.peers import Field
from tests.support.tones import decibel, pitch_hz, strength

RATE = 16_000
SECONDS = 0.5

# An oscillator into the worklet of an offline context; "start" and "stop" are told while it stands still.
RECORD = """
async ({ rate, hz, seconds }) => {
  const context = new OfflineAudioContext(1, rate * (seconds + 0.4), rate);
  await context.audioWorklet.addModule("/shared/sound.worklet.js");
  const source = new OscillatorNode(context, { frequency: hz });
  const worklet = new AudioWorkletNode(context, "lingua-capture", { numberOfOutputs: 0 });
  const samples = [];
  const ended = new Promise((done) => {
    worklet.port.onmessage = ({ data }) => {
      samples.push(...data.samples);
      if (data.isLast) done();
    };
  });
  const tell = (at, word) =>
    context.suspend(at).then(() => {
      worklet.port.postMessage(word);
      setTimeout(() => context.resume(), 50);
    });
  tell(0.1, "start");
  tell(0.1 + seconds, "stop");
  source.connect(worklet);
  source.start();
  await context.startRendering();
  await ended;
  return samples;
}
"""


async def test_the_microphone_becomes_16_khz_without_folding(peers: Field) -> None:
    async with browser() as opened:
        page = await opened.new_page()
        await page.goto(f"http://127.0.0.1:{peers.port}/talk")

        async def recorded(rate: int, hz: float) -> list[int]:
            found: list[int] = await page.evaluate(RECORD, {"rate": rate, "hz": hz, "seconds": SECONDS})
            return found

        for rate in (8_000, 16_000, 44_100, 48_000, 96_000):
            low = await recorded(rate, 440)
            assert len(low) == pytest.approx(RATE * SECONDS, rel=0.01)
            steady = low[1_000:-1_000]
            assert pitch_hz(steady, RATE) == pytest.approx(440, rel=0.001)
            assert decibel(strength(steady, RATE, 440) / 32_767) == pytest.approx(0, abs=0.1)
        for rate in (44_100, 48_000):
            high = (await recorded(rate, 6_000))[1_000:-1_000]
            assert decibel(strength(high, RATE, 6_000) / 32_767) == pytest.approx(0, abs=0.5)
            # 10 kHz would be heard as 6 kHz, 9 kHz as 7 kHz.
            for hz in (9_000, 10_000):
                folded = (await recorded(rate, hz))[1_000:-1_000]
                assert decibel(max(1, *map(abs, folded)) / 32_767) < -60
