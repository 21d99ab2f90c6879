"""Voices that come as packages, and the recogniser that understands them."""

import math
import re
import subprocess
import sys
import threading
from typing import Any

import pytest

from lingua_scheduler.engines.moonshine import LONG_S
from lingua_sdk.audio import Audio, from_little_endian
from lingua_sdk.engines import to_nobody
from tests.support.engines import loaded, loudness, word_errors

SENTENCE = "I would like a cup of coffee without sugar, please."


@pytest.fixture(scope="module")
def nanotts() -> Any:
    return loaded("nanotts", "NanoTts", "py_nanotts")


@pytest.fixture(scope="module")
def espeak() -> Any:
    return loaded("espeak", "Espeak", "espeakng_loader")


@pytest.fixture(scope="module")
def moonshine() -> Any:
    return loaded("moonshine", "Moonshine", "moonshine_voice")


def nobody(text: str) -> None:
    raise AssertionError("a short sentence is not shown on the way")


@pytest.mark.parametrize("language", ["en", "es", "fr", "de", "it"])
def test_nanotts_speaks_its_languages(nanotts: Any, language: str) -> None:
    spoken = nanotts.speak("Hotel Europa, 27.", language)
    assert spoken.sample_rate == 16_000
    assert 0.8 < spoken.seconds < 6
    assert loudness(spoken) > 300


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", SENTENCE),
        ("es", "Buenos días, ¿dónde está la estación de tren? La tienda abre a las diez."),
        ("fr", "Bonjour, où est la gare, s'il vous plaît? Je voudrais un café sans sucre."),
        ("de", "Guten Morgen, wo ist der Bahnhof? Ich hätte gern einen Kaffee ohne Zucker."),
        ("it", "Buongiorno, dov'è la stazione? Vorrei un caffè senza zucchero, per favore."),
    ],
)
def test_nanotts_is_as_loud_as_other_voices_and_is_not_clipped(nanotts: Any, language: str, text: str) -> None:
    spoken = nanotts.speak(text, language)
    peak = max(abs(sample) for sample in from_little_endian(spoken.samples))
    assert decibels(peak) < -1
    assert decibels(loudness(spoken)) == pytest.approx(-20, abs=4)


def decibels(level: float) -> float:
    return 20 * math.log10(level / 32_768)


def test_nanotts_reads_marks_as_text(nanotts: Any) -> None:
    loud = nanotts.speak('<volume level="10">hola</volume>', "es")
    assert loud.seconds > nanotts.speak("hola", "es").seconds


@pytest.mark.parametrize(
    ("language", "text"), [("pt", "Bom dia, senhora."), ("zh", "你好，火车站在哪里？"), ("sw", "Habari ya asubuhi.")]
)
def test_espeak_speaks(espeak: Any, language: str, text: str) -> None:
    spoken = espeak.speak(text, language)
    assert 0.5 < spoken.seconds < 5
    assert loudness(spoken) > 300


def test_espeak_knows_a_hundred_languages_by_the_codes_people_use(espeak: Any) -> None:
    assert {"en", "pt", "zh", "es", "fr", "ja", "ru", "hi"} <= set(espeak.languages)
    assert len(espeak.languages) > 100


def test_espeak_keeps_voices_apart_when_threads_speak_at_once(espeak: Any) -> None:
    texts = {"pt": "Bom dia, senhora.", "en": "Good morning, madam, how are you today?"}
    alone = {language: espeak.speak(text, language).seconds for language, text in texts.items()}
    wrong: list[float] = []

    def speak(language: str) -> None:
        for _ in range(20):
            seconds = espeak.speak(texts[language], language).seconds
            if abs(seconds - alone[language]) > 0.1:
                wrong.append(seconds)

    threads = [threading.Thread(target=speak, args=(language,)) for language in (*texts, *texts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Two nodes of one process have an engine each. A crash would end the tests, so they are in a process of their own.
CROWD = """
import threading
from lingua_scheduler.engines.espeak import Espeak
from tests.support.engines import loudness

TEXTS = {"pt": "Bom dia, senhora.", "en": "Good morning, madam, how are you today?"}
alone = {language: Espeak().speak(text, language).seconds for language, text in TEXTS.items()}
good = []
together = threading.Barrier(6)

def speak(language):
    together.wait()
    for _ in range(10):
        spoken = Espeak().speak(TEXTS[language], language)
        good.append(abs(spoken.seconds - alone[language]) <= 0.1 and loudness(spoken) > 300)

threads = [threading.Thread(target=speak, args=(language,)) for language in (*TEXTS, *TEXTS, *TEXTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(good), all(good))
"""


def test_engines_of_one_process_that_speak_at_once_do_not_crash_it(espeak: Any) -> None:
    ended = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, errors="replace", check=False)
    assert (ended.returncode, ended.stdout) == (0, "60 True\n"), ended.stderr


def test_espeak_takes_no_commands_from_a_text(espeak: Any) -> None:
    """This one would turn its voice down to nothing."""
    spoken = espeak.speak("\x010A Bom dia, senhora.", "pt")
    assert loudness(spoken) > 300


def test_hibari_speaks_english() -> None:
    spoken = loaded("hibari", "Hibari", "hibari").speak("Good morning. [Sure](/x/).", "en")
    assert 1 < spoken.seconds < 6
    assert loudness(spoken) > 300


def test_moonshine_understands_a_voice(nanotts: Any, moonshine: Any) -> None:
    heard = moonshine.recognise(nanotts.speak(SENTENCE, "en"), "en", nobody)
    assert word_errors(SENTENCE, heard) <= 1


def test_moonshine_shows_the_beginning_of_a_long_utterance(nanotts: Any, moonshine: Any) -> None:
    shown: list[str] = []
    spoken = nanotts.speak(f"{SENTENCE} The meeting starts tomorrow. My brother works in the hospital.", "en")
    assert spoken.seconds > LONG_S
    heard = moonshine.recognise(spoken, "en", shown.append)
    assert len(shown) == 1
    assert shown[0].startswith("I would like")
    assert "hospital" in heard


def test_moonshine_saves_that_work_when_nobody_wants_to_see_it(moonshine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []

    def text(samples: list[float], sample_rate: int) -> str:
        heard.append(len(samples))
        return ""

    monkeypatch.setattr(moonshine, "_text", text)
    moonshine.recognise(Audio(bytes(int(LONG_S * 32_000))), "en", to_nobody)
    assert len(heard) == 1


@pytest.mark.parametrize("samples", [b"", bytes(20), bytes(64_000)])
def test_moonshine_makes_no_words_of_silence(moonshine: Any, samples: bytes) -> None:
    assert moonshine.recognise(Audio(samples), "en", nobody) == ""


def test_moonshine_hears_nothing_of_an_utterance_before_that_was_cut_off(nanotts: Any, moonshine: Any) -> None:
    spoken = nanotts.speak(SENTENCE, "en")
    assert moonshine.recognise(Audio(spoken.samples[:48_000]), "en", nobody)
    assert moonshine.recognise(Audio(bytes(64_000)), "en", nobody) == ""


def test_moonshine_works_in_several_threads_at_once(nanotts: Any, moonshine: Any) -> None:
    spoken = nanotts.speak(SENTENCE, "en")
    heard: list[str] = []
    threads = [
        threading.Thread(target=lambda: heard.append(moonshine.recognise(spoken, "en", nobody))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Rounding differs with the number of threads, and may turn a comma into a full stop.
    assert [re.findall(r"\w+", text.lower()) for text in heard] == [re.findall(r"\w+", SENTENCE.lower())] * 3
