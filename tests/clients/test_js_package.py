"""The JavaScript package: generated types are current, it is small, and it works after npm install."""

import gzip
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.js_client import PACKAGE, ROOT, TOOLS, node
from tools import docs, typescript

MAX_CORE_BYTES = 15 * 1024
UNIT_TESTS = sorted(str(path) for path in (PACKAGE / "test").glob("*.test.mjs"))
MANIFEST = json.loads((PACKAGE / "package.json").read_text("utf-8"))


def test_the_types_of_messages_are_those_of_the_schema() -> None:
    assert docs.CLIENT_TYPES.read_text("utf-8") == typescript.messages(), "run make docs"


def test_it_has_the_version_and_the_license_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (MANIFEST["version"], MANIFEST["license"]) == (project["version"], project["license"])


def test_it_needs_no_other_package() -> None:
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & MANIFEST.keys()
    imports = [
        found
        for path in (PACKAGE / "src").glob("*.ts")
        for found in re.findall(r'^(?:import|export) .*from "([^"]+)"', path.read_text("utf-8"), re.MULTILINE)
    ]
    assert [name for name in imports if not name.startswith("./")] == []


def test_every_entry_point_is_in_the_built_package(built: Path) -> None:
    for target in MANIFEST["exports"].values():
        for path in target.values() if isinstance(target, dict) else (target,):
            assert (built.parent / path).exists(), path


PAGES = ROOT / "src/lingua_scheduler/console/assets"


@pytest.mark.parametrize("name", ["client.js", "sound.worklet.js"])
def test_the_pages_load_what_this_source_builds(built: Path, name: str) -> None:
    assert (PAGES / "shared" / name).read_text("utf-8") == (built / name).read_text("utf-8"), "run make pages"


def test_the_pages_speak_to_a_scheduler_through_the_client_alone() -> None:
    speaks = re.compile(
        r"\bWebSocket\b|session_init|audio_chunk|room_join|getUserMedia|RTCPeerConnection|decodeAudioData"
    )
    found = {
        path.name
        for folder in ("talk", "room", "shared")
        for path in (PAGES / folder).glob("*.js")
        if speaks.search(path.read_text("utf-8"))
    }
    assert found == {"client.js"}


def test_the_core_is_small(built: Path) -> None:
    command = [
        *(str(TOOLS / "node_modules/.bin/esbuild"), str(built / "index.js")),
        *("--bundle", "--minify", "--format=esm", "--target=es2022"),
    ]
    bundled = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    size = len(gzip.compress(bundled, 9))
    print(f"core, minified and gzipped: {size} bytes")
    assert 1_000 < size <= MAX_CORE_BYTES


def test_its_own_unit_tests_pass(built: Path) -> None:
    command = [node(), "--test", "--test-reporter=spec", *UNIT_TESTS]
    environment = os.environ | {"LINGUA_BUILT": str(built)}
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=150, env=environment)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]
    assert int(re.findall(r"pass (\d+)", run.stdout)[-1]) >= len(UNIT_TESTS)
    assert UNIT_TESTS


def test_the_type_check_stops_a_mistake_of_an_application(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, tmp_path / "client")
    head = 'import { connect } from "./client/index.js";\n'
    good = 'const session = await connect({ url: "ws://x", source: "en", target: "pt" });\n'
    (tmp_path / "good.ts").write_text(f"{head}{good}session.on('result', (result) => result.index);\nexport {{}};\n")
    (tmp_path / "bad.ts").write_text(f"{head}{good}session.on('result', (result) => result.number);\nexport {{}};\n")
    options = {"strict": True, "noEmit": True, "target": "ES2022", "module": "ES2022", "moduleResolution": "Bundler"}
    config = {"compilerOptions": options | {"lib": ["ES2023", "DOM"], "types": []}, "files": ["good.ts", "bad.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    command = [str(TOOLS / "node_modules/.bin/tsc"), "-p", str(tmp_path)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert re.findall(r"(\w+)\.ts\(.*TS2339", run.stdout) == ["bad"], run.stdout
