"""Runs what a manifest says as the kubelet would, as far as one machine without containers can.

The command and environment of the container, its user, its volumes as folders, and probes."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from lingua_sdk.processes import die_with_parent, stop
from tests.support.charts import Manifest, of_kind
from tests.support.surprises import SURPRISES
from tests.support.waiting import until

USER = 10001
_ROOT = Path(__file__).parents[2]
# What the image of deploy/container says itself.
_IMAGE = {
    "HOME": "/var/lib/lingua",
    "XDG_STATE_HOME": "/var/lib/lingua",
    "LINGUA_SERVER_HOST": "0.0.0.0",
    "LINGUA_REDIS_DATA_DIR": "/var/lib/lingua",
    "LINGUA_LOGS_FORMAT": "json",
}
_IMPORTS = os.pathsep.join(
    [
        *(str(_ROOT / place / "src") for place in (".", "lingua-sdk")),
        *(path for path in sys.path if path.endswith("site-packages")),
    ]
)
Secrets = Mapping[str, Mapping[str, str]]


@cache
def interpreter() -> tuple[str, bool]:
    """A Python that the user of the pods can run, and whether it can be run as that user."""
    if os.geteuid() != 0:
        return sys.executable, False
    for program in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        words = [program, "-c", "import lingua_scheduler.cli.main"]
        with_imports = {"PYTHONPATH": _IMPORTS, "PATH": os.defpath}
        if shutil.which(program) and _runs(words, with_imports):
            return program, True
    return sys.executable, False


def _runs(words: list[str], environment: dict[str, str]) -> bool:
    try:
        asked = subprocess.run(
            words, user=USER, group=USER, extra_groups=[], env=environment, capture_output=True, check=False
        )
    except PermissionError:
        return False
    return asked.returncode == 0


class Pod(NamedTuple):
    """A container of a pod, with its volumes made in a folder."""

    container: Manifest
    spec: Manifest
    environment: dict[str, str]
    mounts: dict[str, Path]

    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container["ports"]}

    def words(self, *instead: str) -> list[str]:
        given = instead or (*self.container["command"], *self.container.get("args", ()))
        return [_expanded(self._moved(word), self.environment) for word in given]

    def _moved(self, text: str) -> str:
        """Paths of mounts are folders of the test here. /tmp stays, because TMPDIR says where it is."""
        places = [re.escape(place) for place in sorted(self.mounts, key=len, reverse=True) if place != "/tmp"]
        return re.sub("|".join(places) or "$^", lambda found: str(self.mounts[found[0]]), text)

    async def start(self, *instead: str, **streams: Any) -> asyncio.subprocess.Process:
        environment = {name: self._moved(value) for name, value in self.environment.items()}
        words = self.words(*instead)
        program = shutil.which(words[0], path=environment["PATH"])
        assert program is not None, words
        return await asyncio.create_subprocess_exec(
            *(program, *words[1:]), env=environment, cwd="/", preexec_fn=_become_user, **streams
        )

    async def run(self, *instead: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        pipe = asyncio.subprocess.PIPE
        process = await self.start(*instead, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
        return await process.wait(), out.decode(), err.decode()

    @asynccontextmanager
    async def running(self, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
        with log.open("wb") as output:
            process = await self.start(stdout=output, stderr=output)
        try:
            yield process
        finally:
            await stop(process, 15.0)
            SURPRISES.look_at_log(log.read_text("utf-8", "replace"))

    async def passes(self, probe: str, process: asyncio.subprocess.Process, log: Path) -> None:
        asked = self.container[f"{probe}Probe"]["httpGet"]
        url = f"http://127.0.0.1:{self.ports()[asked['port']]}{asked['path']}"

        async def is_passed() -> bool:
            assert process.returncode is None, log.read_text("utf-8", "replace")
            return await _status(url) == 200

        await until(is_passed, what=f"{probe}: {url}")


def _become_user() -> None:
    _, as_user = interpreter()
    if as_user:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    # Another user would undo it.
    die_with_parent()


async def _status(url: str) -> int:
    try:
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            return response.status
    except aiohttp.ClientError:
        return 0


@contextmanager
def node_of_cluster() -> Iterator[Path]:
    """A folder that the user of the pods can enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="lingua-pod-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        programs = place / "bin"
        programs.mkdir()
        python, _ = interpreter()
        (programs / "python").symlink_to(python)
        lingua = programs / "lingua"
        lingua.write_text(f"#!{python}\nfrom lingua_scheduler.cli.main import main\nmain()\n")
        lingua.chmod(0o755)
        # The client of Redis asks for it before Python 3.11.3, and it may not be installed for the Python of the tests.
        (programs / "async_timeout.py").write_text("from asyncio import timeout as timeout\n")
        yield place


def pod_of(spec: Manifest, manifests: list[Manifest], secrets: Secrets, place: Path, name: str = "pod") -> Pod:
    (container,) = spec["containers"]
    base = place / name
    base.mkdir()
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    mounts = {mount["mountPath"]: base / mount["name"] for mount in container.get("volumeMounts", ())}
    environment = {
        **_IMAGE,
        "PATH": f"{place / 'bin'}{os.pathsep}{os.defpath}",
        "PYTHONPATH": f"{_IMPORTS}{os.pathsep}{place / 'bin'}",
        "TMPDIR": str(mounts.get("/tmp", base)),
        "SSL_CERT_FILE": os.devnull,
    }
    for variable in container.get("env", ()):
        environment[variable["name"]] = _value(variable, environment, secrets, name)
    pod = Pod(container, spec, environment, mounts)
    for mount in container.get("volumeMounts", ()):
        _make(volumes[mount["name"]], mounts[mount["mountPath"]], manifests, secrets)
    settings = mounts.get("/etc/lingua")
    if settings is not None:
        file = settings / "lingua.toml"
        file.write_text(pod._moved(file.read_text()))
    return pod


def _value(variable: Manifest, before: Mapping[str, str], secrets: Secrets, pod: str) -> str:
    source = variable.get("valueFrom", {})
    if "secretKeyRef" in source:
        return secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
    if "fieldRef" in source:
        assert source["fieldRef"] == {"fieldPath": "metadata.name"}
        return pod
    return _expanded(variable["value"], before)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """$(NAME) of variables that are defined before it; others stay as they are."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), text)


def _make(volume: Manifest, folder: Path, manifests: list[Manifest], secrets: Secrets) -> None:
    _, as_user = interpreter()
    folder.mkdir()
    if "emptyDir" in volume:
        if as_user:
            os.chown(folder, 0, USER)
            folder.chmod(0o2770)
        return
    if "configMap" in volume:
        files: Mapping[str, str] = of_kind(manifests, "ConfigMap", volume["configMap"]["name"])["data"]
        mode = 0o644
    else:
        about = volume["secret"]
        known = secrets[about["secretName"]]
        items = about.get("items", [{"key": key, "path": key} for key in known])
        files = {item["path"]: known[item["key"]] for item in items}
        # Without root there is no other user who could own them.
        mode = about["defaultMode"] if as_user else 0o400
    for name, text in files.items():
        path = folder / name
        path.write_text(text)
        path.chmod(mode)
        if as_user:
            os.chown(path, 0, USER)
