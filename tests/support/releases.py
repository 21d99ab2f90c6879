"""The release before this one, built as a wheel of its commit and installed beside this one."""

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

# What was published last. A release sets it to the tag before it.
PREVIOUS = "14721bb3df6b81de6f396f4550916b9207b5b7a6"
# Goes when the environment of this release does (make clean).
CACHE = Path(sys.prefix) / "releases"


class NoSuchRelease(Exception):
    """It cannot be built here; the message says why."""


@cache
def python_of(commit: str = PREVIOUS) -> Path:
    """The interpreter of an environment that has this release and the dependencies of ours. Built once, then kept."""
    home = CACHE / commit
    python = home / "bin" / "python"
    if not python.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            wheel = _wheel(commit, Path(folder))
            _install(wheel, Path(folder) / "env")
            if not python.exists():  # another process may have been faster
                shutil.rmtree(home, ignore_errors=True)
                (Path(folder) / "env").rename(home)
    return python


def _wheel(commit: str, folder: Path) -> Path:
    git = ["git", "-C", str(ROOT)]
    archive = folder / "source.tar"
    found = subprocess.run([*git, "archive", "-o", str(archive), commit], capture_output=True, text=True, check=False)
    if found.returncode:
        raise NoSuchRelease(f"git archive {commit[:8]}: {found.stderr.strip() or 'failed'} (a clone without history?)")
    source = folder / "source"
    shutil.unpack_archive(archive, source, filter="data")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    # The same for all who build it.
    made = subprocess.run(
        build, cwd=source, capture_output=True, text=True, check=False, env=os.environ | {"SOURCE_DATE_EPOCH": "1"}
    )
    if made.returncode:
        raise NoSuchRelease(f"hatchling cannot build {commit[:8]}: {made.stderr[-500:]}")
    return next((source / "dist").glob("*.whl"))


def _install(wheel: Path, home: Path) -> None:
    """Our packages are on its path, but none of their `.pth` files, one of which would bring this release."""
    venv.create(home, symlinks=True)
    packages = next((home / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
