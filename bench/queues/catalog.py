"""The job queues we are measured beside: which there are, how each is set up, and whether it can be had here."""

import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import children

HERE = Path(__file__).parent
# Where `make bench-peers` puts them; arq cannot live with the others, whose Redis client is newer than it bears.
PYTHONS = (Path(sys.executable), Path(".venv-peers/bin/python"), Path(".venv-peers-arq/bin/python"))
NPM_CACHE = Path("bench/.cache/npm")
NPM_LIMIT_S = 180.0
ASK_LIMIT_S = 30.0
COMPLAINT_MAX = 200
# What a client or worker in Python needs besides its queue.
LEAN = ("hiredis", "uvloop")
_ASK = (
    "import importlib.metadata as found, json; print(json.dumps("
    "{one.name.lower(): one.version for one in found.distributions() if one.name}))"
)


class JobQueue(NamedTuple):
    """`outcome` is how the caller learns how a job went: `event`, `list`, or the library's own `result`."""

    name: str
    package: str
    outcome: str
    settings: str

    @property
    def is_python(self) -> bool:
        return self.package != "bullmq"


class Found(NamedTuple):
    """A queue that can be had. Each command still lacks the path of the Redis socket."""

    version: str
    worker: tuple[str, ...]
    client: tuple[str, ...]


class NotFound(Exception):
    """It cannot be had; the message says why."""


_DRAMATIQ = "one worker thread, 1 000 fetched ahead"
_TASKIQ = "Redis streams, 1 000 tasks at once and as many fetched ahead, parameters not validated, uvloop"
_ARQ = "1 000 jobs at once, queue polled every millisecond, nothing logged, uvloop"
_CELERY = "solo pool, 1 000 fetched ahead, one producer kept, no events, gossip, mingle, heartbeat or rate limits"

QUEUES = (
    JobQueue(
        "BullMQ",
        "bullmq",
        "event",
        "1 000 jobs at once, added in bulk, removed when done; outcomes by its event stream",
    ),
    JobQueue("dramatiq", "dramatiq", "list", f"{_DRAMATIQ}; outcomes by list"),
    JobQueue("taskiq", "taskiq-redis", "list", f"{_TASKIQ}; outcomes by list"),
    JobQueue("arq", "arq", "list", f"{_ARQ}; outcomes by list"),
    JobQueue("Celery", "celery", "list", f"{_CELERY}; outcomes by list"),
    JobQueue("dramatiq, own results", "dramatiq", "result", f"{_DRAMATIQ}; the client blocks for each result"),
    JobQueue("taskiq, own results", "taskiq-redis", "result", f"{_TASKIQ}; the client polls for each result"),
    JobQueue("arq, own results", "arq", "result", f"{_ARQ}; the client polls for each result"),
    JobQueue("Celery, own results", "celery", "result", f"{_CELERY}; Redis result backend, the client waits for each"),
)
ABOUT_SETTINGS = (
    "What makes a job outlive its worker or be tried again is as each queue comes. By list: no result is kept; each job"
    " writes its number to a Redis list through a bare socket, and the client reads many at once. Everybody's Redis is"
    " the embedded server with the same persistence, on a Unix socket."
)


class Catalog:
    """Looks at each Python, and at npm, once."""

    def __init__(self) -> None:
        self._installed: dict[Path, dict[str, str]] = {}

    async def find(self, queue: JobQueue) -> Found:
        return await (self._find_python(queue) if queue.is_python else self._find_bullmq())

    async def _find_python(self, queue: JobQueue) -> Found:
        for python in PYTHONS:
            if python not in self._installed:
                self._installed[python] = await _installed(python)
            versions = self._installed[python]
            if all(package in versions for package in (queue.package, *LEAN)):
                program = (str(python.absolute()), "-P", str(HERE / "program.py"))
                about = (queue.package, queue.outcome)
                return Found(
                    _spoken(versions, queue.package), (*program, "worker", *about), (*program, "client", *about)
                )
        raise NotFound(f"{queue.package} is not installed; `make bench-peers` installs it")

    async def _find_bullmq(self) -> Found:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise NotFound("node and npm are not installed")
        folder = NPM_CACHE.absolute()
        await _install(npm, folder)
        manifest = msgspec.json.decode((HERE / "package.json").read_bytes())["dependencies"]
        _, node_version = await children.run_to_end(node, "--version", folder=folder, limit_s=ASK_LIMIT_S)
        version = f"{manifest['bullmq']}, ioredis {manifest['ioredis']}, node {node_version.removeprefix('v')}"
        program = (node, str(HERE / "bullmq.mjs"))
        return Found(version, (*program, "worker", str(folder)), (*program, "client", str(folder)))


async def _installed(python: Path) -> dict[str, str]:
    """Versions by the name of what a Python has; none when there is no such Python."""
    if not python.exists():
        return {}
    code, said = await children.run_to_end(
        str(python.absolute()), "-P", "-c", _ASK, folder=Path.cwd(), limit_s=ASK_LIMIT_S
    )
    return dict(json.loads(said)) if code == 0 else {}


def _spoken(versions: dict[str, str], package: str) -> str:
    words = (
        [versions[package]] if package != "taskiq-redis" else [versions["taskiq"], f"taskiq-redis {versions[package]}"]
    )
    return ", ".join([*words, f"redis-py {versions['redis']}"])


async def _install(npm: str, folder: Path) -> None:
    """The pinned packages, unless they are there; no script of theirs is run."""
    pins = HERE / "package.json"
    marker = folder / "installed.json"
    try:
        if marker.exists() and marker.read_bytes() == pins.read_bytes():
            return
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pins, folder / "package.json")
        code, said = await children.run_to_end(
            npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder, limit_s=NPM_LIMIT_S
        )
        if code != 0:
            raise NotFound(f"npm could not install it: {_complaint(said)}")
        shutil.copyfile(pins, marker)
    except OSError as error:
        raise NotFound(f"{folder} cannot be used: {error}") from None


def _complaint(said: str) -> str:
    errors = [line.removeprefix("npm error ") for line in said.splitlines() if line.startswith("npm error ")]
    return " ".join(errors)[:COMPLAINT_MAX] or said[-COMPLAINT_MAX:] or "it said nothing"
