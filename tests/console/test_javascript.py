"""The JavaScript of the pages: its own unit tests, and gates that fail when a rule is broken."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/console/assets").rglob("*.test.mjs"))
TOOLS = ROOT / "tools/js"
OLDEST_NODE = 20


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no Node.js on this machine")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    if int(version.lstrip("v").split(".")[0]) < OLDEST_NODE:
        pytest.skip(f"Node.js {OLDEST_NODE} or newer is needed; this is {version.strip()}")
    return found


def tool(name: str) -> str:
    node()
    found = TOOLS / "node_modules/.bin" / name
    if not found.exists():
        pytest.skip(f"{name} is not installed: make check-js does it")
    return str(found)


def outcome_of(*files: str) -> "subprocess.CompletedProcess[str]":
    command = [node(), "--test", "--test-reporter=spec", *files]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_pages_own_unit_tests_pass() -> None:
    run = outcome_of(*TESTS)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]
    assert int(re.findall(r"pass (\d+)", run.stdout)[-1]) >= len(TESTS)


@pytest.mark.parametrize("fault", ["assert.equal(1, 2)", 'throw new Error("it")', "await Promise.reject(new Error())"])
def test_a_unit_test_that_fails_fails_the_run(tmp_path: Path, fault: str) -> None:
    head = 'import assert from "node:assert/strict";\nimport test from "node:test";\n'
    planted = tmp_path / "planted.test.mjs"
    planted.write_text(f'{head}test("it", async () => {{\n  {fault};\n}});\n')
    run = outcome_of(TESTS[0], str(planted))
    assert run.returncode != 0
    assert re.findall(r"fail (\d+)", run.stdout)[-1] == "1", run.stdout


def linted(code: str) -> set[str]:
    """The rules that this code breaks, were it a file of the talk page."""
    name = "src/lingua_scheduler/console/assets/talk/planted.js"
    command = [
        tool("eslint"),
        "-c",
        str(TOOLS / "eslint.config.js"),
        "--format=json",
        "--stdin",
        f"--stdin-filename={name}",
    ]
    run = subprocess.run(command, check=False, cwd=ROOT, input=code, capture_output=True, text=True, timeout=120)
    assert run.stdout, run.stderr
    return {message["ruleId"] for file in json.loads(run.stdout) for message in file["messages"]}


def test_the_linter_stops_what_the_rules_forbid() -> None:
    branches = "".join(f"  if (n === {number}) return {number};\n" for number in range(10))
    planted = {
        "complexity": f"export function f(n) {{\n{branches}  return n;\n}}\n",
        "max-lines": "// a line\n" * 301,
        "no-restricted-properties": "document.body.innerHTML = location.hash;\n",
        "eqeqeq": "export const isOne = (n) => n == 1;\n",
        "no-var": "export var n = 1;\n",
    }
    assert {rule: rule in linted(code) for rule, code in planted.items()} == dict.fromkeys(planted, True)
    assert linted("export const isOne = (n) => n === 1;\n") == set()


def test_a_comment_cannot_switch_a_rule_off() -> None:
    assert "no-var" in linted("/* eslint no-var: off */\n// eslint-disable-next-line no-var\nexport var n = 1;\n")


def test_the_type_check_stops_a_field_that_no_message_has(tmp_path: Path) -> None:
    client = ROOT / "src/lingua_scheduler/console/assets/shared/client.js"
    head = f'/** @import {{TranslationResult}} from "{client}" */\n\n/** @param {{TranslationResult}} message */\n'
    config = {
        "extends": str(TOOLS / "tsconfig.json"),
        "compilerOptions": {"incremental": False, "tsBuildInfoFile": None},
        "include": [str(tmp_path)],
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    (tmp_path / "good.js").write_text(f"{head}export const index = (message) => message.utterance_index;\n")
    (tmp_path / "bad.js").write_text(f"{head}export const index = (message) => message.utterance_number;\n")
    run = subprocess.run([tool("tsc"), "-p", str(tmp_path)], check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode != 0
    assert re.findall(r"(\w+)\.js\(.*TS2339", run.stdout) == ["bad"], run.stdout


def test_the_type_check_of_the_client_is_strict(tmp_path: Path) -> None:
    """TypeScript, which `make check` compiles with `clients/js/build.mjs`."""
    config = {
        "extends": str(ROOT / "clients/js/tsconfig.json"),
        "compilerOptions": {"rootDir": str(tmp_path), "noEmit": True},
        "include": [str(tmp_path)],
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    (tmp_path / "good.ts").write_text("export const first = (list: number[]): number => list[0] ?? 0;\n")
    (tmp_path / "unchecked.ts").write_text("export const first = (list: number[]): number => list[0];\n")
    (tmp_path / "untyped.ts").write_text("export const size = (list) => list.length;\n")
    run = subprocess.run([tool("tsc"), "-p", str(tmp_path)], check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode != 0
    assert sorted(re.findall(r"(\w+)\.ts\(.*(TS\d+)", run.stdout)) == [("unchecked", "TS2322"), ("untyped", "TS7006")]


def test_every_exception_of_the_linter_has_its_reason() -> None:
    text = (TOOLS / "eslint.config.js").read_text("utf-8")
    listed = re.search(r"const EXCEPTIONS = \[\n(.*?)\n\];", text, re.DOTALL)
    assert listed is not None
    lines = [line.strip() for line in listed[1].splitlines()]
    places = [number for number, line in enumerate(lines) if line.startswith("{ files")]
    assert places
    assert all(number and lines[number - 1].startswith("// ") for number in places)


def test_the_lock_file_names_no_registry() -> None:
    locked = json.loads((TOOLS / "package-lock.json").read_text("utf-8"))["packages"]
    assert len(locked) > 10
    assert [name for name, package in locked.items() if "resolved" in package] == []
    assert [name for name, package in locked.items() if name and "integrity" not in package] == []
