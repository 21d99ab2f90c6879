"""The gates of `make check` that are other people's programs: each stops a planted violation, with our configuration.

Those of our own are planted in test_house.py and test_coverage_gate.py, those of JavaScript in
console/test_javascript.py."""

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from grimp import ImportGraph
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

from tools import docs_code
from tools.code_blocks import Block

ROOT = Path(__file__).parent.parent
IMPORTS: dict[str, Any] = read_configuration(str(ROOT / "pyproject.toml"))
ROOTS: dict[str, Any] = IMPORTS["session_options"]
CONTRACTS: dict[str, dict[str, Any]] = {contract["name"]: contract for contract in IMPORTS["contracts_options"]}

# For each contract an import that it forbids: who would import what.
BREACHES = [
    ("Imports point inward", "domain.jobs.retry_course", "services.dispatch.placing"),
    ("Imports point inward", "gateway.door", "app"),
    ("Services point from watching down to attempts", "services.attempts.ending", "services.watching.overview"),
    ("What others build on stands on the protocol alone", "engines.crew", "settings"),
    (
        "The SDK knows nothing of the scheduler, and installs nothing of it",
        "lingua_sdk.client",
        "lingua_scheduler.clock",
    ),
    ("The SDK knows nothing of the scheduler, and installs nothing of it", "lingua_sdk.client", "aiohttp"),
    (
        "The SDK points from its parts to the wire, and from there to plain decisions",
        "lingua_sdk.node",
        "lingua_sdk.sync",
    ),
    ("The conformance kit judges by the protocol, not by the scheduler", "conformance.play", "store.keys"),
    ("Domain and protocol are pure", "domain.pools.pools", "asyncio"),
    ("OpenTelemetry stays behind telemetry.traces and sdk.tracing", "services.attempts.trails", "opentelemetry"),
    ("Only services.access.tokens reads tokens, and sdk.identity signs those of nodes", "gateway.door", "jwt"),
    ("Only services.access.oidc_provider talks to identity providers", "console.hub", "httpx"),
    ("Domain points from watching down to errors", "domain.jobs.retry_course", "domain.watching.verdict"),
    ("Store points from maintenance down to the wire", "store.keys", "store.jobs.jobs"),
    ("Commands point from serving down to wording", "cli.wording", "cli.main"),
    ("Only the store speaks Redis", "services.dispatch.placing", "redis"),
]


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    return grimp.build_graph(*ROOTS["root_packages"], include_external_packages=True, cache_dir=None)


def is_kept(graph: ImportGraph, name: str) -> bool:
    options = dict(CONTRACTS[name])
    kind = {"layers": LayersContract, "forbidden": ForbiddenContract}[options["type"]]
    # A contract may change the graph that it looks at.
    return kind(name, ROOTS, options).check(deepcopy(graph), verbose=False).kept


def full(module: str) -> str:
    ours = {path.stem for path in (ROOT / "src" / "lingua_scheduler").iterdir()}
    return f"lingua_scheduler.{module}" if module.partition(".")[0] in ours else module


@pytest.mark.parametrize(("contract", "importer", "imported"), BREACHES)
def test_an_import_contract_stops_an_import(graph: ImportGraph, contract: str, importer: str, imported: str) -> None:
    broken = deepcopy(graph)
    importer, imported = full(importer), full(imported)
    assert importer in graph.modules
    broken.add_import(importer=importer, imported=imported)
    assert not is_kept(broken, contract)


@pytest.mark.parametrize("contract", [name for name, one in CONTRACTS.items() if one.get("exhaustive")])
def test_a_package_that_has_no_layer_is_stopped(graph: ImportGraph, contract: str) -> None:
    (container,) = CONTRACTS[contract]["containers"]
    broken = deepcopy(graph)
    broken.add_module(f"{container}.planted")
    assert not is_kept(broken, contract)


def test_every_import_contract_is_tried() -> None:
    assert {name for name, _, _ in BREACHES} == set(CONTRACTS)


def ruff(place: str, text: str, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "ruff", *words, "--no-cache", "--stdin-filename", str(ROOT / place), "-"]
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("import os\n", "F401"),
        ("def f(list): return list\n", "A002"),
        ("import time\n\n\nasync def f():\n    time.sleep(1)\n", "ASYNC251"),
        ("def f(x=[]): return x\n", "B006"),
        ("import datetime\n\nX = datetime.datetime.now()\n", "DTZ005"),
        ("# x = f(1)\n", "ERA001"),
        ("import sys\nimport os\n\nX = os, sys\n", "I001"),
        ("def F(): ...\n", "N802"),
        ("import os\n\nX = os.path.join('a', 'b')\n", "PTH118"),
        ("X = 1  # noqa: F401\n", "RUF100"),
        ("X = '" + "a" * 120 + "'\n", "E501"),
    ],
)
def test_the_linter_stops_what_the_rules_forbid(text: str, rule: str) -> None:
    code, said = ruff("src/lingua_scheduler/domain/planted.py", text, "check", "--output-format", "concise")
    assert code == 1
    assert f" {rule} " in said


def test_the_formatter_stops_what_it_would_write_otherwise() -> None:
    assert ruff("src/planted.py", "x = { 'a':1 }\n", "format", "--check")[0] == 1
    assert ruff("src/planted.py", 'x = {"a": 1}\n', "format", "--check")[0] == 0


def test_the_type_check_is_strict(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(
        "def bare(a): return a\n"
        "x: int = 'text'\n"
        "y: list = []\n"
        "z: int = 1  # type: ignore\n"
        "def often(a: str | None) -> str: return a\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", os.devnull]
    done = subprocess.run([*command, str(planted)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert {line.rpartition("[")[2].rstrip("]") for line in done.stdout.splitlines() if ": error:" in line} == {
        *("no-untyped-def", "assignment", "type-arg", "unused-ignore", "return-value"),
    }


def test_python_in_a_document_is_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MYPY_CACHE_DIR", str(tmp_path / "cache"))
    planted = Block("docs/sdk.md", 7, "python", "port: int = 'many'\n")
    monkeypatch.setattr(docs_code, "blocks", lambda: [planted])
    assert docs_code.main() == 1
    said = capsys.readouterr().out
    assert planted.place in said
    assert "[assignment]" in said


GATES = [
    *("ruff format --check .", "ruff check .", "mypy", "python -m tools.docs_code", "lint-imports"),
    *("python -m tools.house", "tsc -p", "node clients/js/build.mjs", "eslint -c"),
]


def check_with_stubs(folder: Path, failing: str) -> tuple[int, list[str]]:
    """`make check` where every program only notes how it was called, and the one that is named fails."""
    called = folder / "called"
    stub = f"""#!/bin/sh
said="$(basename "$0") $*"
echo "$said" >> {called}
case "$said" in "{failing}"*) exit 1;; esac
"""
    bins = {
        folder / "venv/bin": ("ruff", "mypy", "python", "lint-imports"),
        folder / "js/node_modules/.bin": ("tsc", "eslint"),
        folder / "path": ("node",),
    }
    for place, names in bins.items():
        place.mkdir(parents=True)
        for name in names:
            (place / name).write_text(stub)
            (place / name).chmod(0o755)
    # What is newer than all that it depends on is not made.
    for name in ("js/package.json", "js/package-lock.json", "js/node_modules/.ready", "venv/.dev"):
        (folder / name).touch()
    paths = f"{folder / 'path'}{os.pathsep}{os.environ['PATH']}"
    # A make that runs this test hands down its own options.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "check", f"VENV={folder / 'venv'}", f"JS={folder / 'js'}", "NPM=npm", "UV="]
    done = subprocess.run(
        command, cwd=ROOT, env=kept | {"PATH": paths}, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, called.read_text().splitlines()


@pytest.mark.parametrize("failing", [*GATES, "none"])
def test_make_check_runs_every_gate_and_stops_at_the_first_that_fails(tmp_path: Path, failing: str) -> None:
    code, called = check_with_stubs(tmp_path, failing)
    expected = GATES if failing == "none" else GATES[: GATES.index(failing) + 1]
    assert [gate for line in called for gate in GATES if line.startswith(gate)] == expected, called
    assert (code == 0) is (failing == "none")


def test_a_surprise_and_a_leak_fail_the_test_they_come_from(tmp_path: Path) -> None:
    """The two fixtures of every test, in a run of its own."""
    place = tmp_path / "security"
    place.mkdir()
    (place / "test_planted.py").write_text(
        "from lingua_scheduler.telemetry import logs\n"
        "from lingua_sdk.domain.key_texts import KeyKind, fresh_key\n"
        "def test_good(): logs.get().info('it.went_well')\n"
        "def test_surprise(): logs.get().error('it.failed')\n"
        "def test_leak(): logs.get().info('it.leaked', about=fresh_key(KeyKind.CLIENT).secret)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COVERAGE"))}
    options = ["-q", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "tests.conftest"]
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", str(place)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = sorted(line.split("::")[1].split(" ")[0] for line in done.stdout.splitlines() if line.startswith("ERROR "))
    assert failed == ["test_leak", "test_surprise"], done.stdout
    assert "not expected (see the marker expects_surprise)" in done.stdout
    assert "secrets were written" in done.stdout
