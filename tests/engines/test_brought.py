"""Engines with models that an owner brings: loaded for real from tiny models, or through a stand-in for the library."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lingua_sdk.audio import Audio
from tests.support import tiny_models
from tests.support.engines import fetched, loaded

SILENCE = Audio(bytes(64_000))


def test_a_model_of_argos_is_loaded_and_translates(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    folders = [tiny_models.argos(tmp_path / "one", "zh", "en"), tiny_models.argos(tmp_path / "two", "en", "zh")]
    argos = loaded("argos", "Argos", "sentencepiece", folders, "cpu")
    assert set(argos.pairs) == {("zh", "en"), ("en", "zh")}
    said = argos.translate("the cat. the mat.", "en", "zh")
    assert said
    assert "▁" not in said
    assert argos.translate(" ", "en", "zh") == ""
    assert argos.device == "cpu"


@pytest.mark.parametrize("marks", [("eng_Latn", "por_Latn", "zho_Hans"), ("__en__", "__pt__", "__zh__")])
def test_a_model_of_nllb_or_m2m100_is_told_apart_and_loaded(tmp_path: Path, marks: tuple[str, ...]) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    nllb = loaded("nllb", "Nllb", "sentencepiece", tiny_models.many_to_many(tmp_path, *marks), "cpu")
    assert ("en", "zh") in nllb.pairs
    assert len(nllb.pairs) == 6
    said = nllb.translate("the cat sat. the mat", "en", "pt")
    assert said
    assert not any(mark in said.split()[0] for mark in marks)


def test_the_wanted_language_is_asked_of_the_model(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    folder = tiny_models.many_to_many(tmp_path, "eng_Latn", "por_Latn")
    nllb = loaded("nllb", "Nllb", "sentencepiece", folder, "cpu")
    asked: list[Any] = []

    def translate_batch(parts: list[list[str]], **options: Any) -> list[Any]:
        asked.append((parts, options["target_prefix"]))
        return [SimpleNamespace(hypotheses=[[options["target_prefix"][0][0], "▁gato"]]) for _ in parts]

    nllb._model = SimpleNamespace(translate_batch=translate_batch)
    assert nllb.translate("the cat. the mat", "en", "pt") == "gato gato"
    (parts, prefix) = asked[0]
    assert [(part[0], part[-1]) for part in parts] == [("eng_Latn", "</s>")] * 2
    assert prefix == [["por_Latn"], ["por_Latn"]]


def test_a_folder_that_is_no_such_model_is_refused_in_words(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    folder = tiny_models.many_to_many(tmp_path, "eng_Latn")
    with pytest.raises(ValueError, match="not an NLLB or M2M100 model"):
        loaded("nllb", "Nllb", "sentencepiece", folder, "cpu")


def test_a_voice_of_piper_is_loaded_and_speaks_the_language_it_names(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    voice = tiny_models.piper_voice(tmp_path / "pt_BR-tiny.onnx", "pt_BR")
    piper = loaded("piper", "Piper", "piper", [voice], "cpu")
    assert (piper.languages, piper.device) == (("pt",), "cpu")
    spoken = piper.speak("abc abc", "pt")
    assert spoken.sample_rate == 22_050
    assert spoken.samples.strip(b"\0")


class FakeWhisper:
    """As much of faster-whisper as we use, by its own names."""

    supported_languages = ("en", "pt", "zh")

    def __init__(self, folder: str, **options: Any) -> None:
        self.options = options
        self.asked: dict[str, Any] = {}

    def transcribe(self, samples: Any, **options: Any) -> tuple[Any, Any]:
        self.asked = options | {"samples": len(samples)}
        return (SimpleNamespace(text=text) for text in (" Bom dia.", " Tudo bem?", " Sim.")), SimpleNamespace()

    def detect_language(self, samples: Any) -> tuple[str, float, list[tuple[str, float]]]:
        return "en", 0.5, [("en", 0.5), ("zh", 0.1), ("pt", 0.4)]


@pytest.fixture
def whisper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    pytest.importorskip("numpy", reason="numpy is not installed")
    library, devices = ModuleType("faster_whisper"), ModuleType("ctranslate2")
    library.WhisperModel = FakeWhisper  # type: ignore[attr-defined]
    devices.get_cuda_device_count = lambda: 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faster_whisper", library)
    monkeypatch.setitem(sys.modules, "ctranslate2", devices)
    for name in ("model.bin", "tokenizer.json"):
        (tmp_path / name).touch()
    from lingua_scheduler.engines.whisper import Whisper

    return Whisper(tmp_path, "auto", ["pt", "zh"])


def test_whisper_is_put_on_a_gpu_where_there_is_one_and_fetches_nothing(whisper: Any) -> None:
    assert whisper.device == "gpu"
    assert whisper._model.options == {"device": "cuda", "compute_type": "int8_float16", "local_files_only": True}
    assert whisper.languages == ("pt", "zh")


def test_whisper_shows_what_it_has_so_far(whisper: Any) -> None:
    shown: list[str] = []
    assert whisper.recognise(SILENCE, "pt", shown.append) == "Bom dia. Tudo bem? Sim."
    assert shown == ["Bom dia.", "Bom dia. Tudo bem?"]
    assert whisper._model.asked["language"] == "pt"
    assert whisper._model.asked["samples"] == 32_000
    assert whisper._model.asked["vad_filter"] is True


def test_whisper_tells_the_languages_in_question_apart(whisper: Any) -> None:
    assert whisper.identify(SILENCE, ["pt", "zh"]) == "pt"


def test_whisper_wants_a_folder_with_a_model(whisper: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="contains no model"):
        type(whisper)(tmp_path / "nowhere")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="contains no tokenizer"):
        type(whisper)(tmp_path)


def test_chinese_becomes_english() -> None:
    argos = loaded("argos", "Argos", "sentencepiece", [fetched("zh-en")])
    assert "train station" in argos.translate("你好，请问火车站在哪里？", "zh", "en")


@pytest.mark.slow
def test_whisper_hears_chinese_and_no_words_in_silence() -> None:
    whisper = loaded("whisper", "Whisper", "faster_whisper", fetched("whisper-base"))
    spoken = loaded("espeak", "Espeak", "espeakng_loader").speak("我想喝一杯咖啡。", "zh")
    assert "咖啡" in whisper.recognise(spoken, "zh", lambda _: None)
    assert whisper.recognise(SILENCE, "zh", lambda _: None) == ""
