"""Builds the documentation site: python -m tools.docs_site [FOLDER]. Versions that are in the folder already stay."""

import json
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tools.docs_site import answers, mermaid, schemas
from tools.docs_site.checking import faults
from tools.docs_site.navigation import ROOT, Entry, Site, sites
from tools.docs_site.places import place_of
from tools.docs_site.staging import Staging

OUT = ROOT / "dist" / "docs-site"
_GENERATOR = ROOT / ".venv-docs" / "bin" / "zensical"
_KEPT = ROOT / ".venv-docs" / "npm"
_SETTINGS = Path(__file__).parent / "zensical.toml"
_NAMES = {"en": "English", "zh": "中文"}
_LONGEST_S = 300
_REDIRECT = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Lingua Scheduler</title>
<meta http-equiv="refresh" content="0; url={to}"></head>
<body><a href="{to}">Documentation of Lingua Scheduler</a></body></html>
"""


def main() -> int:
    out = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else OUT
    here = version("lingua-scheduler")
    script = mermaid.fetch(_KEPT)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        Staging(folder, here).stage(sites())
        schemas.write(folder / "en")
        for site in sites():
            (folder / site.language / "assets").mkdir(exist_ok=True)
            shutil.copyfile(script, folder / site.language / "assets" / "mermaid.min.js")
            _build(site, here, folder, out)
    _point_to(out, here)
    found = faults(out) or answers.missing(out, here)
    if found:
        print(*found, f"{len(found)} faults in the site", sep="\n")
        return 1
    print(f"The site is in {out}. To read it: python3 -m http.server --directory {out} --bind 127.0.0.1 8000")
    return 0


def _build(site: Site, here: str, folder: Path, out: Path) -> None:
    config = folder / f"{site.language}.toml"
    config.write_text(_config(site, here), "utf-8")
    run = subprocess.run(
        [_GENERATOR, "build", "--strict", "--clean", "--config-file", config],
        check=False,
        cwd=folder,
        timeout=_LONGEST_S,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode:
        raise SystemExit(run.stdout)
    target = out / site.language / here
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(folder / f"site-{site.language}", target)


def _config(site: Site, here: str) -> str:
    others = [
        {"name": _NAMES[name], "link": f"./../../{name}/{here}/" if name != site.language else "./", "lang": name}
        for name in _NAMES
    ]
    project = {"site_name": site.title, "docs_dir": site.language, "site_dir": f"site-{site.language}"}
    lines = ["[project]", *(f"{name} = {_toml(value)}" for name, value in project.items())]
    lines += [f"nav = {_toml(_placed(site.nav))}", _SETTINGS.read_text("utf-8")]
    lines += [f"alternate = {_toml(others)}", 'version = { provider = "mike" }']
    return "\n".join(lines).replace("[project.theme]\n", f'[project.theme]\nlanguage = "{site.language}"\n')


def _placed(entries: list[Entry]) -> list[Entry]:
    return [
        {title: place_of(inner).path if isinstance(inner, str) else _placed(inner)}
        for entry in entries
        for title, inner in entry.items()
    ]


def _toml(value: object) -> str:
    """On one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_toml(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _point_to(out: Path, here: str) -> None:
    """Lists the versions for the menu, and leads to the one that was built last."""
    for site in sites():
        folder = out / site.language
        names = sorted((path.name for path in folder.iterdir() if path.is_dir()), key=_order, reverse=True)
        listed = [{"version": name, "title": name, "aliases": ["latest"] if name == here else []} for name in names]
        (folder / "versions.json").write_text(json.dumps(listed), "utf-8")
        (folder / "index.html").write_text(_REDIRECT.format(to=f"{here}/"), "utf-8")
    (out / "index.html").write_text(_REDIRECT.format(to=f"en/{here}/"), "utf-8")


def _order(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Numbers as numbers: 0.10 comes after 0.9."""
    return tuple((part.isdigit(), int(part) if part.isdigit() else 0, part) for part in name.split("."))


if __name__ == "__main__":
    sys.exit(main())
