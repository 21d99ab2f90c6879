"""`lingua node FILE`: what is served of a file, and what is said about it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_sdk.engines import Abilities
from lingua_sdk.node import Node

SETTINGS, ENGINES = 2, 7
CLASSES = """
class Ears:
    languages = ["en"]
    def recognise(self, audio, language, partial):
        return "hello"

class Mind:
    pairs = [("en", "pt"), ("en", "es")]
    def translate(self, text, source, target):
        return text

class Voice:
    languages = ["pt"]
    def speak(self, text, language): ...
"""
PIPELINE = "\nfrom lingua_sdk.node import *\nengine = Pipeline(Ears(), None, Mind(), Voice(){slots})\n"
RUN = PIPELINE + "run_node(Node('ws://127.0.0.1:1', engine))\n"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Abilities]:
    """What nodes would tell a scheduler, none of which connects."""
    told: list[Abilities] = []

    async def serve(self: Node) -> None:
        told.append(self.engine.abilities())  # type: ignore[attr-defined]

    monkeypatch.setattr(Node, "serve", serve)
    return told


def node(folder: Path, code: str, *more: str) -> Result:
    path = folder / "batch.py"
    path.write_text(code, "utf-8")
    return CliRunner().invoke(main, ["node", str(path), *more])


@pytest.mark.parametrize(
    "more", ["", PIPELINE.format(slots=""), PIPELINE.format(slots=", slots=3"), RUN.format(slots=", slots=3")]
)
def test_slots_and_languages_of_the_command_line_win(tmp_path: Path, served: list[Abilities], more: str) -> None:
    shown = node(tmp_path, CLASSES + more, "--slots", "6", "--languages", "en,es")
    assert shown.exit_code == 0, shown.output
    assert "serving en → es; 6 at once" in shown.stderr
    [able] = served
    assert (able.slots, able.translates, able.speaks) == (6, [("en", "es")], [])


def test_without_options_a_file_is_served_as_it_says(tmp_path: Path, served: list[Abilities]) -> None:
    shown = node(tmp_path, CLASSES + PIPELINE.format(slots=", slots=3"))
    assert "serving en → pt, en → es; 3 at once" in shown.stderr
    assert [able.slots for able in served] == [3]


def test_a_check_says_what_the_options_would_leave(tmp_path: Path) -> None:
    shown = node(tmp_path, CLASSES, "--check", "--slots", "6", "--languages", "en,es")
    assert "would serve en → es; 6 at once" in shown.stdout
    assert "→ pt" not in shown.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--recogniser", "whisper"),
        ("--engine", "sim"),
        ("--engine", "auto"),
        ("--list",),
        ("--device", "cpu"),
        ("--delay-ms", "5"),
        ("--models-dir", "x"),
    ],
)
def test_options_for_installed_engines_are_refused(
    tmp_path: Path, served: list[Abilities], options: tuple[str, ...]
) -> None:
    refused = node(tmp_path, CLASSES, *options)
    assert refused.exit_code == SETTINGS
    assert f"{options[0]} is for installed engines and does not go with FILE" in refused.stderr
    assert not served


def test_an_engine_may_import_what_lies_beside_its_file_when_it_loads(tmp_path: Path, served: list[Abilities]) -> None:
    (tmp_path / "beside_when_loading.py").write_text("x = 1\n", "utf-8")
    shown = node(tmp_path, CLASSES + "\n    def load(self):\n        import beside_when_loading\n")
    assert (shown.exit_code, len(served)) == (0, 1), shown.output


DEAF = CLASSES.replace('[("en", "pt"), ("en", "es")]', '[("fr", "de")]')
WHY_DEAF = "batch.py serves nothing: Mind translates from fr, but no recogniser knows fr (Ears: en)"


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_a_file_that_can_serve_nothing_ends_with_the_reason(
    tmp_path: Path, served: list[Abilities], options: tuple[str, ...]
) -> None:
    refused = node(tmp_path, DEAF, *options)
    assert (refused.exit_code, served) == (ENGINES, [])
    assert WHY_DEAF in refused.stderr


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_languages_that_leave_nothing_are_told_from_engines_that_serve_nothing(
    tmp_path: Path, served: list[Abilities], options: tuple[str, ...]
) -> None:
    refused = node(tmp_path, CLASSES, "--languages", "pt,es", *options)
    assert (refused.exit_code, served) == (ENGINES, [])
    assert "--languages pt,es leaves no language pair to serve; without it: en → pt, en → es" in refused.stderr


def test_languages_that_cannot_be_read_after_loading_are_an_error(tmp_path: Path, served: list[Abilities]) -> None:
    code = CLASSES.replace("class Voice:", "    def load(self):\n        self.pairs = 'en'\n\nclass Voice:")
    refused = node(tmp_path, code)
    assert (refused.exit_code, served) == (ENGINES, [])
    assert "batch.py: Mind.pairs must be a list of pairs" in refused.stderr


def test_a_model_that_cannot_be_loaded_ends_the_node(tmp_path: Path, served: list[Abilities]) -> None:
    refused = node(tmp_path, CLASSES + "\n    def load(self):\n        raise OSError('weights are cut short')\n")
    assert (refused.exit_code, served) == (ENGINES, [])
    assert "load: OSError: weights are cut short" in refused.stderr


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_why_a_pair_is_text_only_is_said(tmp_path: Path, served: list[Abilities], options: tuple[str, ...]) -> None:
    code = CLASSES.replace("...", "\n        from lingua_sdk.node import Audio\n        return Audio(bytes(32000))")
    shown = node(tmp_path, code, *options)
    assert shown.exit_code == 0, shown.output
    assert "text only (no voice speaks es; Voice speaks pt)" in shown.output
