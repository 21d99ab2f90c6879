"""`lingua node --check FILE`: the engines of a file, tried and told."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.speech import trial
from lingua_scheduler.setting_sections.jobs import JobSettings
from tools.docs import ROOT

ENGINES = 7
MINE = """
class Ears:
    languages = {languages}
    def recognise(self, audio, language, partial):
        return "hello"

class Mind:
    pairs = [("en", "pt"), ("en", "es")]
    def translate(self, text, source, target):
        if target == "es":
            {es}
        return text
"""


def check(path: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["node", "--check", str(path), *more])


def mine(folder: Path, languages: str = '["en"]', es: str = "return text") -> Path:
    path = folder / "my_engines.py"
    path.write_text(MINE.format(languages=languages, es=es), "utf-8")
    return path


def test_the_example_of_the_page_would_serve_its_pair() -> None:
    shown = check(ROOT / "examples" / "node.py")
    assert shown.exit_code == 0, shown.output
    assert "s of speech spoken" in shown.stdout
    assert "would serve en → pt; 2 at once" in shown.stdout
    # Stages are called as the methods of engines, in errors too.
    assert re.search(r", \d+ ms \(recognise \d+ ms, repair \d+ ms, translate \d+ ms, speak \d+ ms\)", shown.stdout)


def test_a_pair_that_fails_is_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    shown = check(mine(tmp_path, es="return None"))
    assert shown.exit_code == ENGINES
    assert "en → pt  ok, text only" in shown.stdout
    assert "en → es  FAILED" in shown.stdout
    assert "translate: BrokenContract: translate() must return str, got None" in shown.stdout
    assert "would serve en → pt; 2 at once" in shown.stdout
    assert "my_engines.py: 1 pair failed" in shown.stderr


def test_as_json(tmp_path: Path) -> None:
    shown = check(mine(tmp_path, es="raise OSError('weights are cut short')"), "--json")
    assert shown.exit_code == ENGINES
    told = json.loads(shown.stdout)
    works, fails = told["pairs"]
    assert (works["from"], works["to"], works["is_spoken"], works["problem"]) == ("en", "pt", False, None)
    assert works["took_ms"] > 0
    assert fails["problem"].startswith("translate: OSError: weights are cut short\n")
    assert told["slots"] == 2


@pytest.mark.parametrize(
    ("languages", "said"),
    [
        ('"en"', 'Ears.languages is the text "en"; write a list of languages: ["en"]'),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("[]", "my_engines.py serves nothing: no recogniser knows a language (Ears: none)"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_a_sentence(tmp_path: Path, languages: str, said: str) -> None:
    refused = check(mine(tmp_path, languages))
    assert refused.exit_code == ENGINES
    assert said in refused.stderr


def test_a_file_without_engines_is_told_what_would_do(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    refused = check(tmp_path / "empty.py")
    assert refused.exit_code == ENGINES
    assert "empty.py makes no engine: end it with run_node" in refused.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import torchy", "ModuleNotFoundError: No module named 'torchy'"),
        ("model = {}['large-v3']", "KeyError: 'large-v3'"),
        ("raise OSError(f'{__name__} has no weights')", "OSError: __main__ has no weights"),
        ("x = (", "SyntaxError: '(' was never closed"),
    ],
)
def test_an_error_of_the_file_is_shown_whole_with_its_own_lines_alone(tmp_path: Path, line: str, said: str) -> None:
    path = mine(tmp_path)
    path.write_text(f"{path.read_text('utf-8')}\n{line}\n", "utf-8")
    shown = check(path)
    assert (shown.exit_code, said in shown.output) == (ENGINES, True), shown.output
    assert line in shown.output
    assert "runpy" not in shown.output
    assert "loading.py" not in shown.output


def test_an_error_of_an_engine_is_shown_with_its_own_lines_alone(tmp_path: Path) -> None:
    shown = check(mine(tmp_path, es="return {}[text]"))
    assert "translate: KeyError: 'hello'" in shown.stdout
    assert "return {}[text]" in shown.stdout
    assert "pipeline.py" not in shown.stdout
    told = check(mine(tmp_path, es="return None")).stdout
    assert "translate() must return str, got None\nwould serve" in told


def test_tags_may_be_written_in_any_case(tmp_path: Path) -> None:
    path = mine(tmp_path, languages='["EN"]')
    path.write_text(path.read_text("utf-8").replace('("en", "es")', '("en", "zh_hans")'), "utf-8")
    shown = check(path)
    assert shown.exit_code == 0, shown.output
    assert "would serve en → pt, en → zh-Hans" in shown.stdout


def test_that_loading_takes_long_is_said_first(tmp_path: Path) -> None:
    path = mine(tmp_path)
    path.write_text(path.read_text("utf-8") + "\n    def load(self):\n        print('the model')\n", "utf-8")
    shown = check(path, "--json")
    assert shown.stderr.startswith("loading my_engines.py …\n")
    assert shown.exit_code == 0


def with_voice(path: Path, speech: str) -> Path:
    voice = "\nfrom lingua_sdk.node import Audio\nclass Voice:\n    languages = ['pt']\n"
    voice += f"    def speak(self, text, language):\n        return Audio({speech})\n"
    path.write_text(path.read_text("utf-8") + voice, "utf-8")
    return path


def test_how_much_speech_came_out_is_said(tmp_path: Path) -> None:
    path = with_voice(mine(tmp_path), "bytes(80_000)")
    assert "en → pt  ok, 2.5 s of speech spoken, " in check(path).stdout
    assert [one["speech_s"] for one in json.loads(check(path, "--json").stdout)["pairs"]] == [2.5, 0.0]


def test_a_voice_that_returns_no_speech_is_warned_of(tmp_path: Path) -> None:
    shown = check(with_voice(mine(tmp_path), "b''"))
    assert "spoken" not in shown.stdout
    assert "en → pt  ok, no speech, " in shown.stdout
    assert "    warning: the voice returned no speech for pt" in shown.stdout
    assert shown.exit_code == 0


def test_each_pair_is_named_before_it_is_tried(tmp_path: Path) -> None:
    lines = check(mine(tmp_path)).stdout.splitlines()
    assert lines[0] == "en → pt  trying …"
    assert lines[1].startswith("en → pt  ok")
    assert lines[2] == "en → es  trying …"
    shown = check(mine(tmp_path), "--json")
    assert "en → es  trying …" in shown.stderr
    assert json.loads(shown.stdout)


def test_an_endless_engine_fails_after_the_time_limit(tmp_path: Path) -> None:
    # The other engine is not late, also where the machine is busy.
    shown = check(mine(tmp_path, es="import time; time.sleep(20)"), "--timeout", "5")
    assert shown.exit_code == ENGINES
    assert "en → es  FAILED" in shown.stdout
    assert "not done after 5 s (--timeout)" in shown.stdout
    assert "would serve en → pt; 2 at once" in shown.stdout


def test_a_pair_that_takes_longer_than_a_job_may_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "JOB", JobSettings(timeout_base_ms=1, timeout_factor=0.001))
    path = mine(tmp_path, es="import time; time.sleep(0.1)")
    lines = check(path).stdout.splitlines()
    late = lines[next(place for place, line in enumerate(lines) if line.startswith("en → es  ok")) + 1]
    assert re.match(r" +warning: a job with [\d.]+ s of audio is given up after 0\.0 s by default", late)
    assert "job.timeout_base_ms" in late
    told = json.loads(check(path, "--json").stdout)
    assert told["pairs"][1]["took_ms"] > told["pairs"][1]["allowed_ms"]


def test_a_time_limit_goes_with_a_check_alone(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["node", str(mine(tmp_path)), "--timeout", "5"])
    assert (refused.exit_code, "--timeout goes with --check FILE" in refused.stderr) == (2, True)
