"""Speech in a hundred languages with eSpeak NG, robotic and quick; library and voices are inside the wheel."""

import ctypes
import importlib
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

from lingua_sdk.audio import Audio
from lingua_sdk.domain.languages import is_code

_SYNCHRONOUS = 2
_DONT_EXIT = 0x8000
_UTF8 = 1
# Among several voices of a language; and where its code is not ours.
_PREFERRED = {"en": "en-us", "pt": "pt-br", "zh": "cmn", "fr": "fr-fr"}
# A control character would begin a command to the voice.
_PLAIN = dict.fromkeys(range(32), " ")

# Of all engines of the process: two that speak at once crash it.
_SPEAKING = threading.Lock()

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class _Voice(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("languages", ctypes.c_char_p),
        ("identifier", ctypes.c_char_p),
        ("gender", ctypes.c_ubyte),
        ("age", ctypes.c_ubyte),
        ("variant", ctypes.c_ubyte),
        ("unused", ctypes.c_ubyte),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    )


class Espeak:
    """The library keeps one voice for the whole process, so one sentence is spoken after the other."""

    name = "espeak"

    def __init__(self) -> None:
        with _SPEAKING:
            self._library, self._sample_rate = _opened()
            self._voices = _voices(self._library)
        self.languages: Sequence[str] = tuple(self._voices)

    def speak(self, text: str, language: str) -> Audio:
        spoken = bytearray()

        def take(samples: int | None, count: int, _events: int | None) -> int:
            if samples and count > 0:
                spoken.extend(ctypes.string_at(samples, count * 2))
            return 0

        callback = _Callback(take)
        said = text.translate(_PLAIN).encode()
        with _SPEAKING:
            self._library.espeak_SetSynthCallback(callback)
            if self._library.espeak_SetVoiceByName(self._voices[language].encode()) != 0:
                raise RuntimeError(f"eSpeak no longer has a voice for {language}")
            failed = self._library.espeak_Synth(said, len(said) + 1, 0, 0, 0, _UTF8, None, None)
            failed |= self._library.espeak_Synchronize()
        if failed:
            raise RuntimeError(f"eSpeak could not speak {language}")
        return Audio(bytes(spoken), self._sample_rate)


@cache
def _opened() -> tuple[Any, int]:
    """Once in a process: to begin again frees sounds that the library's voice still uses."""
    package: Any = importlib.import_module("espeakng_loader")
    library = ctypes.CDLL(package.get_library_path())
    library.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_Voice))
    sample_rate = library.espeak_Initialize(_SYNCHRONOUS, 0, package.get_data_path().encode(), _DONT_EXIT)
    if sample_rate <= 0:
        raise ImportError("eSpeak cannot read its voices")
    return library, sample_rate


def _voices(library: Any) -> dict[str, str]:
    """Language → the name of its voice; of several the plainest name."""
    found = library.espeak_ListVoices(None)
    names: list[str] = []
    while found[len(names)]:
        # Each language begins with a byte for its priority.
        names.append(found[len(names)].contents.languages[1:].decode())
    voices = dict(_PREFERRED)
    for name in sorted(names, key=len):
        code = name.split("-")[0]
        if is_code(code):
            voices.setdefault(code, name)
    return {code: name for code, name in voices.items() if name in names}
