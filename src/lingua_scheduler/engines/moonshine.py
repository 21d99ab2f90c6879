"""English speech to text with Moonshine: small enough for a laptop, its model is inside the wheel."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lingua_scheduler.engines.sound import floats
from lingua_scheduler.engines.spares import Spares
from lingua_sdk.audio import Audio
from lingua_sdk.engines import ShowPartial, to_nobody

# The library's own streaming costs several times as much and fails at times. Of a long utterance the beginning is
# recognised first, so that there is something to see; a short one is done as soon.
LONG_S = 6.0
BEGINNING_S = 2.5
# Without a pause at the end the transcriber assumes that the speech continues, and finds words in the next utterance
# that are not there.
PAUSE_S = 1.0


class Moonshine:
    """Transcribers share nothing and work with the GIL released: one for each utterance under way."""

    name = "moonshine"
    languages: Sequence[str] = ("en",)

    def __init__(self) -> None:
        package: Any = importlib.import_module("moonshine_voice")
        self._transcribers = importlib.import_module("moonshine_voice.transcriber")
        self._arch = package.ModelArch.TINY
        self._model = Path(package.get_assets_path()) / "tiny-en"
        if not (self._model / "encoder_model.ort").exists():
            raise ImportError("this moonshine-voice package contains no model")
        self._spares = Spares(self._transcriber)

    def warm_up(self, slots: int) -> None:
        self._spares.prepare(slots)

    def recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str:  # noqa: ARG002 - there is only one
        heard = floats(audio)
        if audio.seconds >= LONG_S and partial is not to_nobody:
            first = self._text(heard[: int(BEGINNING_S * audio.sample_rate)], audio.sample_rate)
            if first:
                partial(first)
        return self._text(heard, audio.sample_rate)

    def _text(self, heard: list[float], sample_rate: int) -> str:
        pause = [0.0] * int(PAUSE_S * sample_rate)
        with self._spares.one() as transcriber:
            lines = transcriber.transcribe_without_streaming(heard + pause, sample_rate).lines
        return " ".join(line.text.strip() for line in lines if line.text.strip())

    def _transcriber(self) -> Any:
        # The audio is ours already; without this it comes back as a list of numbers.
        options = {"return_audio_data": "false"}
        return self._transcribers.Transcriber(self._model, self._arch, options=options)
