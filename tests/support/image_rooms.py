"""Runs the program of an image as a container does: read-only root, no privileges, no shell. Needs root and buildah."""

import ctypes
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

CLONE_NEWNS, MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 1, 32, 4096, 16384, 1 << 18
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, SIGKILL = 24, 38, 1, 9
SHELLS = ("sh", "bash", "dash")
# buildah without a daemon, namespaces and overlays: what deploy/container/build.sh uses too.
BUILDAH = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
_libc = ctypes.CDLL(None, use_errno=True)


class ImageConfig(NamedTuple):
    """What an image says about its own start."""

    words: list[str]
    environment: dict[str, str]
    user: int
    folder: str
    config: dict[str, Any]


def why_not() -> str:
    """Why no image can be run here; empty if one can."""
    if os.geteuid() != 0:
        return "only root can change the root of a process"
    if shutil.which("buildah") is None:
        return "buildah is not on this machine (Debian: buildah)"
    allowed = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "" if allowed.returncode == 0 else "this machine allows no mount namespaces"


def buildah(*words: str) -> str:
    done = subprocess.run(
        ["buildah", *words], env={**os.environ, **BUILDAH}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def config_of(image: str) -> ImageConfig:
    config = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
    environment = dict(line.split("=", 1) for line in config["Env"])
    words = [*config["Entrypoint"], *config["Cmd"]]
    return ImageConfig(words, environment, int(config["User"].partition(":")[0]), config["WorkingDir"], config)


class Room:
    """The root of an image, and the volume of one container."""

    def __init__(self, image: str, root: Path, volume: Path) -> None:
        self.about = config_of(image)
        self.root, self._volume = root, volume
        os.chown(volume, self.about.user, self.about.user)

    def start(self, *words: str, **environment: str) -> "subprocess.Popen[bytes]":
        """The entry point with these words; without any, the command of the image. The network is the machine's."""
        command = [self.about.words[0], *words] if words else self.about.words
        return subprocess.Popen(
            command,
            env={**self.about.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=self._enter,  # noqa: PLW1509 - no other thread holds a lock it needs
        )

    def run(self, *words: str, **environment: str) -> tuple[int, str]:
        process = self.start(*words, **environment)
        try:
            told, _ = process.communicate(timeout=120)
        finally:
            end(process)
        return process.returncode, told.decode()

    def _enter(self) -> None:
        """As with --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges."""
        _call("unshare", CLONE_NEWNS)
        _mount("none", Path("/"), "", MS_REC | MS_PRIVATE)
        _mount(str(self.root), self.root, "", MS_BIND)
        inside = self.root / self.about.folder.lstrip("/")
        _mount(str(self._volume), inside, "", MS_BIND)
        _mount("tmpfs", self.root / "tmp", "tmpfs", 0)
        (self.root / "tmp").chmod(0o1777)
        _mount("/proc", self.root / "proc", "", MS_BIND | MS_REC)
        _mount("/dev", self.root / "dev", "", MS_BIND | MS_REC)
        for shell in SHELLS:
            if (self.root / "bin" / shell).exists():
                _mount("/dev/null", (self.root / "bin" / shell).resolve(), "", MS_BIND)
        _mount("none", self.root, "", MS_REMOUNT | MS_BIND | MS_RDONLY)
        os.chroot(self.root)
        os.chdir(self.about.folder)
        for capability in range(64):
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setresgid(self.about.user, self.about.user, self.about.user)
        os.setresuid(self.about.user, self.about.user, self.about.user)
        _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)


def end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def room(image: str) -> Iterator[Room]:
    container = buildah("from", "--pull-never", image)
    try:
        root = Path(buildah("mount", container))
        with tempfile.TemporaryDirectory(prefix="lingua-volume-") as volume:
            yield Room(image, root, Path(volume))
    finally:
        with suppress(AssertionError):
            buildah("rm", container)


def _mount(source: str, target: Path, kind: str, flags: int) -> None:
    _call("mount", source.encode(), str(target).encode(), kind.encode(), flags, None)


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")
