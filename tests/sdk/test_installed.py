"""The SDK as a node owner installs it: a fresh virtual environment, few packages, and the twenty lines serve a job."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from lingua_sdk import wav
from lingua_sdk.processes import die_with_parent, stop
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.tones import tone
from tests.support.waiting import until
from tools.docs import ROOT

MAX_PACKAGES = 5
SOURCE = ROOT / "lingua-sdk"
README = re.findall(r"^```python\n(.*?)^```$", (SOURCE / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
ADDRESS = "ws://127.0.0.1:5010"
# What a fresh environment has before.
TOOLS = {"pip", "setuptools", "wheel"}
# What pip says when it reaches no registry that has the packages.
NO_REGISTRY = ("No matching distribution found", "Could not find a version", "ConnectionError", "NewConnectionError")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with nothing but the SDK."""
    folder = tmp_path_factory.mktemp("installed")
    # A copy, so that nothing of a build is left in the source.
    shutil.copytree(SOURCE, folder / "lingua-sdk", ignore=shutil.ignore_patterns("__pycache__"))
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    words = (python, "-m", "pip", "install", "--disable-pip-version-check", folder / "lingua-sdk")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    if done.returncode != 0:
        assert any(said in done.stderr for said in NO_REGISTRY), done.stderr
        if os.environ.get("CI") == "true":
            pytest.fail(done.stderr)
        pytest.skip("no package registry can be reached")
    return python


def packages(python: Path) -> set[str]:
    words = (python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {line.partition("==")[0] for line in said.split()} - TOOLS


@pytest.mark.slow
def test_it_installs_few_packages(installed: Path) -> None:
    found = packages(installed)
    assert "lingua-sdk" in found
    assert len(found) <= MAX_PACKAGES, found


@pytest.mark.slow
async def test_the_twenty_lines_serve_a_job_of_a_real_scheduler(
    installed: Path, server: RedisProcess, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    wav.write(tmp_path / "speech.wav", tone(440, 16_000, 1.0).tobytes())
    async with serve_process(tmp_path, "--redis-url", server.url) as serving:
        await until(lambda: serving.port, 60)
        address = f"ws://127.0.0.1:{serving.port}"
        log = tmp_path / "node.log"
        with log.open("wb") as output:
            node = await asyncio.create_subprocess_exec(
                *(installed, "-u", ROOT / "examples" / "node.py", address),
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=environment,
                preexec_fn=die_with_parent,
            )
        try:
            await until(lambda: "registered" in log.read_text("utf-8"), 60)
            (here,) = (block for block in README if "lingua_sdk.sync" in block)
            for words in (
                ("-c", here.replace('"pt")', f'"pt", address="{address}")')),
                (str(ROOT / "examples" / "client.py"), "speech.wav", "en", "pt", address),
            ):
                client = await asyncio.create_subprocess_exec(
                    *(installed, *words),
                    cwd=tmp_path,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    env=environment,
                )
                async with asyncio.timeout(90):
                    said = (await client.communicate())[0].decode()
                assert client.returncode == 0, said
                assert "1.0 segundos de fala" in said
        finally:
            assert await stop(node, 30.0) == 0


@pytest.mark.slow
def test_what_needs_an_extra_says_how_to_install_it(installed: Path) -> None:
    ran = subprocess.run([installed, "-c", "import lingua_sdk.joining"], capture_output=True, text=True, check=False)
    assert "pip install 'lingua-sdk[identity]'" in ran.stderr
    words = "from lingua_sdk.decoding import decode; decode(bytes((1, 0, 8)), 'opus', 16000)"
    ran = subprocess.run([installed, "-c", words], capture_output=True, text=True, check=False)
    assert "pip install 'lingua-sdk[opus]'" in ran.stderr


def test_scheduler_and_sdk_are_of_the_same_release() -> None:
    scheduler, sdk = (
        tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"] for folder in (ROOT, SOURCE)
    )
    assert scheduler["version"] == sdk["version"]
    assert f"lingua-sdk[identity]=={sdk['version']}" in scheduler["dependencies"]
    assert (ROOT / "LICENSE").read_text("utf-8") == (SOURCE / "LICENSE").read_text("utf-8")


@pytest.mark.slow
def test_every_example_is_typed(tmp_path: Path) -> None:
    pages = (ROOT / "docs" / "sdk.md", SOURCE / "README.md")
    blocks = [
        block
        for page in pages
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ]
    assert len(blocks) > 8
    for number, block in enumerate(blocks):
        (tmp_path / f"block_{number}.py").write_text(block, "utf-8")
    names = [f"block_{number}.py" for number in range(len(blocks))]
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *names]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
