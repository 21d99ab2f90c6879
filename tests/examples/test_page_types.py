"""The scripts in the pages of the examples call the client as its types say."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.example_pages import PAGES
from tests.support.js_client import PACKAGE, ROOT, TOOLS

SCRIPT = re.compile(r'^<script type="module">\n(.*?)^</script>$', re.MULTILINE | re.DOTALL)
IMPORTS = re.compile(r'^<script type="importmap">\n(.*?)^</script>$', re.MULTILINE | re.DOTALL)
HTML = [*sorted(PAGES.glob("*.html")), ROOT / "examples" / "backends" / "page.html"]
# A page looks for its elements and knows that they are there.
LOOSE = {"strict": False, "lib": ["ES2023", "DOM", "DOM.Iterable"], "types": []}
MODULES = {"target": "ES2022", "module": "ES2022", "moduleResolution": "Bundler"}


def test_every_page_calls_the_client_as_its_types_say(built: Path, tmp_path: Path) -> None:
    assert len(HTML) == 5
    for page in HTML:
        (script,) = SCRIPT.findall(page.read_text("utf-8"))
        # Of one kind of element for all ids.
        typed = script.replace("document.getElementById(id)", "/** @type {any} */ (document.getElementById(id))")
        (tmp_path / f"{page.parent.name}-{page.stem}.js").write_text(typed, "utf-8")
    shutil.copy(PAGES / "captions.js", tmp_path)
    paths = {"@lingua-scheduler/client": [f"{built}/index"], "@lingua-scheduler/client/*": [f"{built}/*"]}
    options = LOOSE | MODULES | {"noEmit": True, "allowJs": True, "checkJs": True, "paths": paths}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.js"]}))
    command = [str(TOOLS / "node_modules/.bin/tsc"), "-p", str(tmp_path)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout


def test_every_page_finds_what_it_imports(built: Path) -> None:
    for page in HTML:
        text = page.read_text("utf-8")
        (found,) = IMPORTS.findall(text)
        named = json.loads(found)["imports"]
        assert set(re.findall(r'from "(@[^"]+)"', text)) <= set(named)
        for place in named.values():
            assert (built / place.rpartition("/")[2]).exists(), place


def test_the_pages_find_the_client_where_npm_installs_it(built: Path, tmp_path: Path) -> None:
    """As their README says: the client is packed into `dist`, and installed without a registry."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    packed, pages = tmp_path / "dist", tmp_path / "examples" / "pages"
    packed.mkdir()
    pages.mkdir(parents=True)
    shutil.copytree(built, tmp_path / "client" / "dist")
    shutil.copy(PACKAGE / "package.json", tmp_path / "client")
    shutil.copy(PAGES / "package.json", pages)
    for command in (
        ("npm", "pack", str(tmp_path / "client"), "--ignore-scripts", "--pack-destination", str(packed)),
        ("npm", "install", "--no-audit", "--no-fund", "--offline"),
    ):
        run = subprocess.run(command, cwd=pages, check=False, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
    for page in PAGES.glob("*.html"):
        (found,) = IMPORTS.findall(page.read_text("utf-8"))
        assert [place for place in json.loads(found)["imports"].values() if not (pages / place).exists()] == []


def test_the_examples_name_the_version_of_the_client_that_is_packed() -> None:
    version = json.loads((ROOT / "clients" / "js" / "package.json").read_text("utf-8"))["version"]
    for manifest in sorted((ROOT / "examples").glob("*/package.json")):
        wanted = json.loads(manifest.read_text("utf-8"))["dependencies"]["@lingua-scheduler/client"]
        assert wanted == f"file:../../dist/lingua-scheduler-client-{version}.tgz", manifest
