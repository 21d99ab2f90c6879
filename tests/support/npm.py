"""The npm packages of an example, installed once for all tests and kept in examples/.cache."""

import fcntl
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.example_pages import with_client
from tests.support.js_client import ROOT, node

CACHE = ROOT / "examples" / ".cache"
# From the registry, or from the cache of npm.
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
INSTALL_WITHIN_S = 180


def installed(example: Path, built: Path, folder: Path) -> Path:
    """A copy of an example as `npm install` leaves it, with the client that was built. Skips the test if npm or what it
    needs is not here."""
    node()
    manifest = json.loads((example / "package.json").read_text("utf-8"))
    kept = _kept(example.name, manifest)
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns("node_modules", "dist", ".cache"))
    modules = folder / "node_modules"
    modules.mkdir()
    for package in (kept / "node_modules").iterdir():
        (modules / package.name).symlink_to(package)
    return with_client(folder, built)


def _kept(name: str, manifest: dict[str, dict[str, str]]) -> Path:
    """What comes from the registry, which is everything but our own client."""
    for kind in ("dependencies", "devDependencies"):
        packages = manifest.get(kind, {}).items()
        manifest[kind] = {package: version for package, version in packages if not version.startswith("file:")}
    wanted = json.dumps(manifest)
    place = CACHE / name
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        # Another worker may be installing it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = place / ".ready"
        if not ready.exists() or ready.read_text("utf-8") != wanted:
            ready.unlink(missing_ok=True)
            (place / "package.json").write_text(wanted, "utf-8")
            _install(place)
            ready.write_text(wanted, "utf-8")
    return place


def _install(place: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    try:
        subprocess.run(INSTALL, cwd=place, check=True, capture_output=True, timeout=INSTALL_WITHIN_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install the packages of the example within {INSTALL_WITHIN_S} s")
    except subprocess.CalledProcessError as failed:
        pytest.skip(f"npm cannot install the packages: {failed.stderr.decode(errors='replace')[-300:]}")
