"""Completion, as the shells themselves do it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lingua_scheduler.cli.main import main

LINGUA = Path(sys.executable).with_name("lingua")


def script(shell: str) -> str:
    found = CliRunner().invoke(main, ["completion", shell])
    assert found.exit_code == 0
    return found.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["lingua", "al"], {"alarms"}),
        (["lingua", "alarms", "si"], {"silence"}),
        (["lingua", "status", "--ch"], {"--check"}),
        (["lingua", "completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(tmp_path: Path, words: list[str], expected: set[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash on this machine")
    file = tmp_path / "completion.bash"
    file.write_text(script("bash"))
    ask = f"""
        source {file}
        COMP_WORDS=({" ".join(repr(word) for word in words)})
        COMP_CWORD={len(words) - 1}
        _lingua_completion {LINGUA}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run([bash, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    assert (set(done.stdout.split()), done.stderr) == (expected, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(tmp_path: Path, shell: str) -> None:
    text = script(shell)
    assert f"_LINGUA_COMPLETE={shell}_complete" in text
    # A ~/.zshrc without compinit has no compdef.
    assert shell != "zsh" or 0 < text.find("compinit") < text.find("compdef _lingua_completion")
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} on this machine")
    file = tmp_path / "completion"
    file.write_text(text)
    subprocess.run([program, "-n", str(file)], check=True, timeout=60)


def test_zsh_completes_also_in_a_file_that_does_not_prepare_it(tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("there is no zsh on this machine")
    file = tmp_path / ".zshrc"
    file.write_text(script("zsh"))
    ask = ["env", f"HOME={tmp_path}", f"ZDOTDIR={tmp_path}", zsh, "-f", "-c", f"source {file}; print $_comps[lingua]"]
    done = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("_lingua_completion", "")


def test_fish_completes(tmp_path: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("there is no fish on this machine")
    file = tmp_path / "lingua.fish"
    file.write_text(script("fish"))
    ask = f"set -x PATH {LINGUA.parent} $PATH; source {file}; complete -C 'lingua status --ch'"
    done = subprocess.run(
        ["env", f"HOME={tmp_path}", fish, "--no-config", "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split()[0] == "--check"


def test_a_shell_that_is_not_known_is_refused() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2
