"""The release before this one, built as wheels of its commit and installed beside this one."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from functools import cache
from pathlib import Path

from tools.docs import ROOT
from tools.previous_release import previous_release

# Goes when the environment of this release does (make clean).
CACHE = Path(sys.prefix) / "releases"


class NoSuchRelease(Exception):
    """It cannot be built here; the message says why."""


@cache
def python_of(name: str = "") -> Path:
    """The interpreter of an environment that has this release and the dependencies of ours. Built once, then kept.

    Without a tag or commit it is the previous release."""
    commit = _commit(name or previous_release(ROOT).commit)
    home = CACHE / commit
    python = home / "bin" / "python"
    if not python.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            wheels = _wheels(commit, Path(folder))
            _install(wheels, Path(folder) / "env")
            if not python.exists():  # another process may have been faster
                shutil.rmtree(home, ignore_errors=True)
                (Path(folder) / "env").rename(home)
    return python


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        told = done.stderr.strip() or "failed"
        raise NoSuchRelease(f"git {' '.join(words)}: {told} (a clone without history?)")
    return done.stdout.strip()


def _commit(name: str) -> str:
    """A tag or branch may be moved; what is kept of it may not."""
    return _git("rev-parse", "--verify", f"{name}^{{commit}}")


def _wheels(commit: str, folder: Path) -> list[Path]:
    archive, source = folder / "source.tar", folder / "source"
    _git("archive", "-o", str(archive), commit)
    shutil.unpack_archive(archive, source, filter="data")
    # Releases before 0.2 have no SDK of its own.
    parts = [part for part in (source, source / "lingua-sdk") if part.exists()]
    for part in parts:
        made = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheels")],
            cwd=part,
            capture_output=True,
            text=True,
            check=False,
            # The same for all who build it.
            env=os.environ | {"SOURCE_DATE_EPOCH": "1"},
        )
        if made.returncode:
            raise NoSuchRelease(f"hatchling cannot build {commit[:8]}: {made.stderr[-500:]}")
    return list((folder / "wheels").glob("*.whl"))


def _install(wheels: list[Path], home: Path) -> None:
    """Our packages are on its path, but none of their `.pth` files, one of which would bring this release."""
    venv.create(home, symlinks=True)
    packages = next((home / "lib").glob("python*/site-packages"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
