"""Makes what a release publishes, in dist/release: `make release`. docs/releasing.md says what comes before and after.

The wheel and the sdist are built twice from what is committed, and must be the same twice."""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tools.previous_release import PreviousRelease, previous_release

ROOT = Path(__file__).parent.parent
OUT = ROOT / "dist" / "release"
TOOLS = ROOT / ".venv-deploy" / "bin"
CHART = Path("deploy/helm/lingua-scheduler")
HELMS = (TOOLS / "helm", ROOT / ".venv-chart" / "bin" / "helm")
SUMS = "SHA256SUMS"
IMAGES = ("lingua-scheduler", "lingua-node")


class NotReady(Exception):
    """The release cannot be made from this tree; the message says what to change."""


def version_of(root: Path) -> str:
    """The one version, which every file that names it must have."""
    versions = {"pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]}
    versions["clients/js/package.json"] = json.loads((root / "clients/js/package.json").read_text("utf-8"))["version"]
    versions["lingua-sdk/pyproject.toml"] = tomllib.loads((root / "lingua-sdk/pyproject.toml").read_text("utf-8"))[
        "project"
    ]["version"]
    (versions["what pyproject.toml requires of lingua-sdk"],) = re.findall(
        r'"lingua-sdk(?:\[\w+\])?==([^"]+)"', (root / "pyproject.toml").read_text("utf-8")
    )
    (versions["deploy/compose/compose.yaml"],) = set(
        re.findall(r"LINGUA_VERSION:-([^}]+)\}", (root / "deploy/compose/compose.yaml").read_text("utf-8"))
    )
    chart = root / CHART / "Chart.yaml"
    if chart.is_file():
        found = re.findall(r"^(version|appVersion): \"?([^\"\n]+)", chart.read_text("utf-8"), re.MULTILINE)
        versions |= {f"{name} of {CHART}": version for name, version in found}
    for example in sorted(root.glob("examples/*/package.json")):
        for version in named_versions(example.read_text("utf-8")):
            versions[str(example.relative_to(root))] = version
    if len(set(versions.values())) > 1:
        told = ", ".join(f"{name} has {version}" for name, version in versions.items())
        raise NotReady(f"the versions differ: {told}")
    return str(versions["pyproject.toml"])


def named_versions(page: str) -> set[str]:
    """Versions in the names of images and packages, as documents show them."""
    return set(re.findall(r"\blingua-(?:scheduler|node|scheduler-client)[:_-](\d+\.\d+\.\d+)", page))


def notes(changelog: str, version: str, *, is_tagged: bool, compared: str = "") -> str:
    """The section of the release, else of what is unreleased. `compared` is the address of all changes."""
    sections = dict(re.findall(r"^## \[([^\]]+)\]([^\n]*\n.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL))
    dated = sections.get(version)
    if dated is not None and not re.match(r" - \d{4}-\d\d-\d\d\n", dated):
        raise NotReady(f"CHANGELOG.md: write the date, as in '## [{version}] - 2026-01-31'")
    if dated is None and is_tagged:
        raise NotReady(
            f"CHANGELOG.md has no section '## [{version}] - DATE': rename [Unreleased], see docs/releasing.md"
        )
    body = (dated if dated is not None else sections["Unreleased"]).partition("\n")[2].strip()
    if not body:
        raise NotReady("CHANGELOG.md says nothing about this release")
    end = f"\nAll changes: <{compared}>\n" if compared else ""
    return f"# Lingua Scheduler {version}\n\n{body}\n{end}"


def comparison(previous: PreviousRelease, version: str, environment: Mapping[str, str]) -> str:
    """Of two releases on GitHub; empty elsewhere, because only a workflow knows where the repository is."""
    server, repository = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    return f"{server}/{repository}/compare/{previous.commit}...v{version}" if server and repository else ""


def check_tag(tag: str, version: str) -> None:
    if tag and tag != f"v{version}":
        raise NotReady(f"the tag is {tag} and the version is {version}: the tag must be v{version}")


def run(*words: str | Path, folder: Path = ROOT, **environment: str) -> str:
    command = list(map(str, words))
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotReady(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def packages(commit: str, epoch: str, out: Path) -> None:
    """Wheels and sdists of SDK and scheduler, twice, each time from a new copy of the commit in another folder."""
    builds = []
    with tempfile.TemporaryDirectory() as work:
        for name in ("one", "another"):
            folder = Path(work, name)
            archive = Path(work, f"{name}.tar")
            run("git", "archive", "-o", archive, commit)
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            for part in (folder / "lingua-sdk", folder):
                run(
                    sys.executable,
                    "-m",
                    "hatchling",
                    "build",
                    "-d",
                    folder / "dist",
                    folder=part,
                    SOURCE_DATE_EPOCH=epoch,
                )
            builds.append({path.name: digest(path) for path in (folder / "dist").iterdir()})
        if builds[0] != builds[1]:
            raise NotReady(f"two builds of the same commit differ: {builds[0]} and {builds[1]}")
        for path in (folder / "dist").iterdir():
            shutil.copy(path, out)


def bill_of_materials(version: str, out: Path) -> None:
    """Of what the image of the scheduler has: the project with its extras, each package with its hashes."""
    target = out / f"lingua-scheduler-{version}.cdx.json"
    words = ("requirements", "requirements/image.lock", "--pyproject", "pyproject.toml", "--output-reproducible")
    run(TOOLS / "cyclonedx-py", *words, "--output-file", target)
    told = json.loads(target.read_text("utf-8"))
    # Of this repository, so in no lock.
    sdk = {"bom-ref": "lingua-sdk", "type": "library", "name": "lingua-sdk", "version": version}
    sdk["purl"] = f"pkg:pypi/lingua-sdk@{version}"
    told["components"].append(sdk | {"licenses": [{"license": {"id": "MIT"}}]})
    target.write_text(json.dumps(told, indent=2) + "\n", "utf-8")


def extras(epoch: str, out: Path) -> list[str]:
    """What needs more than Python; returns what was left out, and why."""
    left_out = []
    if shutil.which("npm"):
        run("make", "js")
        version = version_of(ROOT)
        shutil.copy(ROOT / "dist" / f"lingua-scheduler-client-{version}.tgz", out)
    else:
        left_out.append("the JavaScript client: there is no npm")
    if (ROOT / CHART).is_dir():
        helm = next((one for one in HELMS if one.exists()), None) or shutil.which("helm")
        if helm:
            run(helm, "package", ROOT / CHART, "--destination", out, SOURCE_DATE_EPOCH=epoch)
        else:
            left_out.append("the chart: there is no helm; make chart installs one")
    return left_out


def images(version: str, out: Path) -> None:
    """As archives that docker load and podman load take."""
    run("deploy/container/build.sh", PYTHON=sys.executable, TAG=version)
    for name in IMAGES:
        archive = out / f"{name}-{version}.tar"
        if (
            shutil.which("docker")
            and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
        ):
            run("docker", "save", "-o", archive, f"{name}:{version}")
        elif shutil.which("podman"):
            run("podman", "save", "-o", archive, f"localhost/{name}:{version}")
        else:
            run("buildah", "push", f"localhost/{name}:{version}", f"docker-archive:{archive}", STORAGE_DRIVER="vfs")


def sums(out: Path) -> None:
    lines = [f"{digest(path)}  {path.name}" for path in sorted(out.iterdir()) if not path.name.startswith(SUMS)]
    (out / SUMS).write_text("\n".join(lines) + "\n")


def signature(out: Path) -> str:
    """With the key that the environment names; empty if it names none."""
    if key := os.environ.get("MINISIGN_KEY"):
        run("minisign", "-S", "-s", key, "-m", out / SUMS)
        return f"{SUMS}.minisig"
    if key := os.environ.get("GPG_KEY"):
        run("gpg", "--batch", "--yes", "--armor", "--local-user", key, "--detach-sign", out / SUMS)
        return f"{SUMS}.asc"
    return ""


def release(out: Path, tag: str, *, with_images: bool) -> None:
    version = version_of(ROOT)
    check_tag(tag, version)
    if changed := run("git", "status", "--porcelain"):
        raise NotReady(f"commit or remove these first, because what is committed is released:\n{changed}")
    compared = comparison(previous_release(ROOT), version, os.environ)
    text = notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version, is_tagged=bool(tag), compared=compared)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "NOTES.md").write_text(text)
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct")
    packages("HEAD", epoch, out)
    bill_of_materials(version, out)
    left_out = extras(epoch, out)
    if with_images:
        images(version, out)
    sums(out)
    signed = signature(out)
    print(f"{out}:\n{(out / SUMS).read_text()}", end="")
    left_out += [] if signed else ["a signature: name a key with MINISIGN_KEY or GPG_KEY"]
    for one in left_out:
        print(f"left out: {one}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="folder, which is emptied first")
    parser.add_argument("--images", action="store_true", help="build the container images too, as archives")
    options = parser.parse_args()
    try:
        release(options.out, os.environ.get("RELEASE_TAG", ""), with_images=options.images)
    except NotReady as reason:
        sys.exit(f"release: {reason}")


if __name__ == "__main__":
    main()
