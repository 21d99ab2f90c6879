"""What a release needs before it is made, and what comes out of it."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tools import release
from tools.docs import ROOT
from tools.previous_release import FIRST, PreviousRelease, previous_release

LOG = """# Changelog

## [Unreleased]

- soon

## [1.2.0] - 2026-01-31

### Changed

- what is new

## [1.1.0]

- forgot the date
"""


def test_every_file_that_names_the_version_has_the_same() -> None:
    assert release.version_of(ROOT)
    pages = [ROOT / "docs" / name for name in ("deploy-container.md", "deploy-systemd.md", "javascript.md")]
    named = {found for page in pages for found in release.named_versions(page.read_text("utf-8"))}
    assert named == {release.version_of(ROOT)}


def test_versions_that_differ_are_named(tmp_path: Path) -> None:
    for name in (
        "pyproject.toml",
        "lingua-sdk/pyproject.toml",
        "clients/js/package.json",
        "deploy/compose/compose.yaml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert release.version_of(tmp_path) == release.version_of(ROOT)
    (tmp_path / "clients/js/package.json").write_text('{"version": "9.9.9"}')
    with pytest.raises(release.NotReady, match=r"the versions differ: .*clients/js/package.json has 9\.9\.9"):
        release.version_of(tmp_path)
    shutil.copy(ROOT / "clients/js/package.json", tmp_path / "clients/js/package.json")
    (tmp_path / "lingua-sdk/pyproject.toml").write_text('[project]\nversion = "9.9.9"\n')
    with pytest.raises(release.NotReady, match=r"lingua-sdk/pyproject.toml has 9\.9\.9"):
        release.version_of(tmp_path)


def test_notes_are_the_section_of_the_release() -> None:
    told = "# Lingua Scheduler 1.2.0\n\n### Changed\n\n- what is new\n"
    assert release.notes(LOG, "1.2.0", is_tagged=True) == told
    # Before there is a section and a tag.
    assert release.notes(LOG, "1.3.0", is_tagged=False).endswith("\n- soon\n")


def test_the_changelog_is_ready_for_the_tag_of_this_version() -> None:
    """Releases are dated, newest first. What is being made may still be under Unreleased."""
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert release.notes(changelog, release.version_of(ROOT), is_tagged=False)
    first, *others = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    assert first == "[Unreleased]"
    dated = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", heading) for heading in others]
    assert None not in dated, others
    versions = [tuple(map(int, found.groups()[:3])) for found in dated if found]
    days = [found[4] for found in dated if found]
    assert (versions, days) == (sorted(set(versions), reverse=True), sorted(days, reverse=True))


def test_notes_on_github_say_where_all_changes_are() -> None:
    previous = PreviousRelease("1.1.0", "v1.1.0")
    github = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "someone/lingua"}
    compared = release.comparison(previous, "1.2.0", github)
    assert compared == "https://github.com/someone/lingua/compare/v1.1.0...v1.2.0"
    assert release.notes(LOG, "1.2.0", is_tagged=True, compared=compared).endswith(f"\n\nAll changes: <{compared}>\n")
    assert release.comparison(previous, "1.2.0", {}) == ""


def test_the_previous_release_is_that_of_the_newest_tag_before_this_commit(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not on this machine")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]

    def commit(tag: str = "") -> None:
        subprocess.run([*git, "commit", "--allow-empty", "--quiet", "--message", "x"], check=True)
        if tag:
            subprocess.run([*git, "tag", tag], check=True)

    subprocess.run([*git, "init", "--quiet"], check=True)
    commit()
    assert previous_release(tmp_path) == FIRST
    commit("v1.1.0")
    assert previous_release(tmp_path) == FIRST
    commit("not-a-release")
    assert previous_release(tmp_path).version == "1.1.0"
    commit("v1.2.0")
    assert previous_release(tmp_path) == PreviousRelease("1.1.0", "v1.1.0")
    commit()
    assert previous_release(tmp_path) == PreviousRelease("1.2.0", "v1.2.0")


@pytest.mark.parametrize(
    ("version", "words"), [("1.3.0", r"has no section '## \[1\.3\.0\] - DATE'"), ("1.1.0", "write the date")]
)
def test_a_tag_needs_a_dated_section(version: str, words: str) -> None:
    with pytest.raises(release.NotReady, match=words):
        release.notes(LOG, version, is_tagged=True)


def test_a_tag_is_that_of_the_version() -> None:
    release.check_tag("v1.2.0", "1.2.0")
    release.check_tag("", "1.2.0")
    with pytest.raises(release.NotReady, match=r"the tag must be v1\.2\.0"):
        release.check_tag("v1.2.1", "1.2.0")


def test_checksums_are_of_every_file_and_can_be_checked(tmp_path: Path) -> None:
    for name in ("a.whl", "b.tar.gz", release.SUMS):
        (tmp_path / name).write_text(name)
    release.sums(tmp_path)
    lines = (tmp_path / release.SUMS).read_text("utf-8").splitlines()
    assert lines == [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}" for name in ("a.whl", "b.tar.gz")]


def test_sums_are_signed_with_a_key_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MINISIGN_KEY", "GPG_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / release.SUMS).write_text("sums\n")
    assert release.signature(tmp_path) == ""
    program = shutil.which("minisign")
    if program is None:
        pytest.skip("minisign is not on this machine (Debian: minisign)")
    public, secret = str(tmp_path / "key.pub"), str(tmp_path / "key")
    subprocess.run([program, "-G", "-W", "-p", public, "-s", secret], check=True, capture_output=True)
    monkeypatch.setenv("MINISIGN_KEY", secret)
    assert release.signature(tmp_path) == f"{release.SUMS}.minisig"
    check = [program, "-V", "-p", public, "-m", str(tmp_path / release.SUMS)]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    (tmp_path / release.SUMS).write_text("other sums\n")
    assert subprocess.run(check, capture_output=True, check=False).returncode != 0


@pytest.mark.slow
def test_two_builds_of_a_commit_are_the_same_and_have_no_secrets(tmp_path: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    release.packages("HEAD", "1700000000", tmp_path)
    version = release.version_of(ROOT)
    (sdist,) = tmp_path.glob("lingua_scheduler-*.tar.gz")
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}-{version}{end}"
        for name in ("lingua_sdk", "lingua_scheduler")
        for end in ("-py3-none-any.whl", ".tar.gz")
    }
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"pyproject.toml", "deploy/systemd/lingua.service", "src/lingua_scheduler/app.py"} <= names
    assert not [name for name in names if "secrets/" in name and name.startswith("deploy/")]


def test_the_bill_of_materials_names_what_the_image_has(tmp_path: Path) -> None:
    if not (release.TOOLS / "cyclonedx-py").exists():
        pytest.skip("cyclonedx-py is not installed: make check-deploy installs it")
    release.bill_of_materials("1.2.0", tmp_path)
    told = json.loads((tmp_path / "lingua-scheduler-1.2.0.cdx.json").read_text("utf-8"))
    assert told["bomFormat"] == "CycloneDX"
    assert told["metadata"]["component"]["name"] == "lingua-scheduler"
    named = {component["name"]: component["version"] for component in told["components"]}
    assert named.pop("lingua-sdk") == "1.2.0"
    lock = (ROOT / "requirements/image.lock").read_text("utf-8")
    assert named
    assert {f"{name}=={version}" for name, version in named.items()} == {
        line.split(" ")[0] for line in lock.splitlines() if "==" in line and line[0].isalpha()
    }
    assert os.environ.get("HOME", "/root") not in json.dumps(told)
