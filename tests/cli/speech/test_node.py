"""`lingua node` and `lingua models`: which engines are here, what is missing, and how it is said."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.engines import catalogue
from lingua_scheduler.engines.catalogue import Choices, EnginePart
from lingua_sdk.audio import Audio

SETTINGS, ENGINES = 2, 7


class Stand:
    """Stands in for an engine of any kind."""

    def __init__(self, name: str, *languages: str, pairs: Any = ()) -> None:
        self.name = name
        self.languages = languages
        self.pairs = pairs

    def recognise(self, audio: Audio, language: str, partial: Any) -> str:
        return ""

    def translate(self, text: str, source: str, target: str) -> str:
        return text


def absent(_: Choices) -> Any:
    raise ModuleNotFoundError(name="nothing")


EAR = EnginePart("recogniser", "ear", "English", "pip install ear==1", lambda _: Stand("ear", "en"))
TONGUE = EnginePart(
    "translator",
    "tongue",
    "to Portuguese",
    "apt-get install tongue",
    lambda _: Stand("tongue", pairs=[("en", "pt"), ("pt", "es")]),
)
VOICE = EnginePart("speaker", "voice", "Portuguese", "pip install voice==1", lambda _: Stand("voice", "pt"))
LOST = EnginePart("recogniser", "lost", "Chinese", "pip install lost==2", absent)


def lingua(*arguments: str, parts: tuple[EnginePart, ...] = (), patch: pytest.MonkeyPatch | None = None) -> Result:
    if patch is not None:
        patch.setattr(catalogue, "PARTS", parts)
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("LINGUA_")}
    return CliRunner(env={**clean, "COLUMNS": "160"}).invoke(main, arguments)


def test_without_engines_a_node_says_what_to_do_and_simulates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = lingua("node", parts=(LOST, TONGUE), patch=monkeypatch)
    assert refused.exit_code == ENGINES
    assert "no translation is possible with the installed engines: there is no recogniser" in refused.stderr
    assert "make speech" in refused.stderr
    assert "lingua node --engine sim" in refused.stderr
    assert "pip install lost==2" in refused.stderr
    assert "Traceback" not in refused.output


def test_the_list_shows_what_is_here_what_it_makes_and_how_to_get_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lingua("node", "--list", parts=(EAR, LOST, TONGUE, VOICE), patch=monkeypatch)
    assert shown.exit_code == 0
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "ear recogniser English ready" in lines
    assert "lost recogniser Chinese not installed" in lines
    assert "en → pt ear cleanup - voice" in lines
    assert "en → es ear cleanup pt none: text only" in lines
    assert "lost pip install lost==2" in lines
    assert not any(line.startswith("ear pip") for line in lines)


def test_the_list_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lingua("node", "--check", "--json", parts=(EAR, LOST, TONGUE, VOICE), patch=monkeypatch)
    told = json.loads(shown.stdout)
    assert [(one["name"], one["is_here"]) for one in told["engines"]] == [
        ("ear", True),
        ("lost", False),
        ("tongue", True),
        ("voice", True),
    ]
    assert told["pairs"][0] == {
        "from": "en",
        "to": "pt",
        "by_way_of": [],
        "is_spoken": True,
        "recognisers": ["ear"],
        "repairers": ["cleanup"],
        "speakers": ["voice"],
    }
    assert (told["pairs"][1]["by_way_of"], told["pairs"][1]["is_spoken"]) == (["pt"], False)


def test_the_list_of_a_machine_that_can_do_nothing_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lingua("node", "--list", "--json", parts=(LOST,), patch=monkeypatch)
    assert shown.exit_code == ENGINES
    assert json.loads(shown.stdout)["pairs"] == []


def test_chosen_parts_are_the_only_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lingua("node", "--list", "--recogniser", "lost", "--json", parts=(EAR, LOST, TONGUE), patch=monkeypatch)
    assert shown.exit_code == ENGINES
    assert [one["name"] for one in json.loads(shown.stdout)["engines"]] == ["lost", "tongue"]


def test_an_engine_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Stand):
        def translate(self, text: str, source: str, target: str) -> str:
            raise OSError("weights are cut short")

    broken = TONGUE._replace(load=lambda _: Broken("tongue", pairs=[("en", "pt")]))
    refused = lingua("node", parts=(EAR, broken), patch=monkeypatch)
    assert refused.exit_code == ENGINES
    assert "cannot load en → pt (OSError: weights are cut short)" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--recogniser", "siri"), "'siri' is not a recogniser; known: moonshine, whisper"),
        (("--languages", "e"), "'e' is not a language code"),
        (("--languages", ","), "no language is named"),
        (("--json",), "--json goes with --list or --check"),
        (("--engine", "sim", "--list"), "--list shows real engines"),
        (("--whisper-model", "/nowhere"), "/nowhere"),
        (("--engine", "sim", "--url", "ftp://x"), "ftp"),
        (("--delay-ms", "5"), "--delay-ms requires --engine sim"),
    ],
)
def test_options_that_cannot_be_used_are_refused_in_words(arguments: tuple[str, ...], said: str) -> None:
    refused = lingua("node", *arguments)
    assert refused.exit_code == SETTINGS
    assert said in refused.stderr


def test_an_address_that_is_none_is_refused_before_engines_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = lingua("node", "--url", "nonsense://x", parts=(EAR, TONGUE), patch=monkeypatch)
    assert refused.exit_code == SETTINGS
    assert refused.output.startswith("lingua: 'nonsense://x' is not an address")


def test_languages_that_leave_no_pair_are_told_from_engines_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lingua("node", "--languages", "en,zh", "--list", parts=(EAR, TONGUE), patch=monkeypatch)
    assert shown.exit_code == ENGINES
    assert shown.stderr == "lingua: --languages en,zh leaves no language pair to serve; without it: en → pt, en → es\n"


def test_models_are_listed_with_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "zh-en").mkdir()
    told = json.loads(lingua("models", "--json", "--models-dir", str(tmp_path)).stdout)
    assert {one["name"]: one["folder"] for one in told} == {"zh-en": str(tmp_path / "zh-en"), "whisper-base": None}
    shown = lingua("models", "list", "--models-dir", str(tmp_path))
    assert "CC-BY 4.0" in shown.stdout


def test_a_model_that_nobody_knows_or_nobody_has_is_refused_in_words(tmp_path: Path) -> None:
    unknown = lingua("models", "get", "nope")
    assert (unknown.exit_code, "'nope' is not a known model; known: zh-en" in unknown.stderr) == (SETTINGS, True)
    unnamed = lingua("models", "get")
    assert (unnamed.exit_code, "name the models to get" in unnamed.stderr) == (SETTINGS, True)
    away = lingua("models", "get", "zh-en", "--models-dir", str(tmp_path), "--registry", "http://127.0.0.1:9/simple")
    assert (away.exit_code, "could not be downloaded" in away.stderr) == (ENGINES, True)
    assert lingua("models", "list", "zh-en").exit_code == SETTINGS
