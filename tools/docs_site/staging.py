"""Copies the pages of the repository into the folders from which the site is built, with links that lead there."""

import posixpath
import re
import shutil
from pathlib import Path

from tools.docs_site.navigation import ROOT, Site
from tools.docs_site.places import Place, link, place_of

# A fenced block, a code span, or a link; only the last is changed.
_CODE_OR_LINK = re.compile(
    r"(?P<code>^```.*?^```$|`[^`\n]+`)|(?P<open>\[(?:[^\[\]]|\[[^\]]*\]\([^)]*\))*\]\()(?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
_FILE_NAME = re.compile(r"\[`?[\w./-]*(?:\.md|/)`?\]\(")
# Between Chinese words an end of line would be shown as a space.
_CHINESE_LINES = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n(?=[\u3000-\u9fff\uff00-\uffef])")
_ELSEWHERE = re.compile(r"[a-z]+:|#")
_PICTURES = (".png", ".svg")
_KINDS = {".cfg": "haproxy", ".conf": "nginx", ".js": "js", ".json": "json", ".mjs": "js", ".py": "python"}
_KINDS |= {".sh": "sh", ".service": "ini", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".go": "go", ".lua": "lua"}
# It would be among the first results for everything.
_NOT_SEARCHED = {"CHANGELOG.md": "---\nsearch:\n  exclude: true\n---\n\n"}
_DIAGRAM = "```mermaid"


class Staging:
    """The pages of all languages, and every file of the repository that they link to."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder = folder
        self._version = version
        self._done: set[str] = set()
        self._open: list[str] = []
        self._titles: dict[str, str] = {}

    def stage(self, sites: list[Site]) -> None:
        self._titles = {file: title for site in sites for file, title in site.titles().items()}
        self._open = [page for site in sites for page in site.pages()]
        while self._open:
            file = self._open.pop()
            if file not in self._done:
                self._done.add(file)
                self._add(file)

    def _add(self, file: str) -> None:
        source = ROOT / file
        place = place_of(file, is_folder=source.is_dir())
        target = self._folder / place.language / place.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.endswith(_PICTURES):
            shutil.copyfile(source, target)
        elif source.is_dir():
            target.write_text(self._listing(file, source), "utf-8")
        elif file.endswith(".md"):
            target.write_text(self._page(file, place, source.read_text("utf-8")), "utf-8")
        else:
            target.write_text(_shown(file, source.read_text("utf-8")), "utf-8")

    def _page(self, file: str, place: Place, text: str) -> str:
        def changed(found: re.Match[str]) -> str:
            if found["code"] or _ELSEWHERE.match(found["target"]):
                return found[0]
            other, target = self._target(file, place, found["target"])
            # In the repository a link says the name of a file; the site has titles.
            if _FILE_NAME.fullmatch(found["open"]) and other in self._titles:
                return f"[{self._titles[other]}]({target})"
            # The text of a link may be a picture, which is a link of its own.
            return f"{_CODE_OR_LINK.sub(changed, found['open'])}{target})"

        text = _NOT_SEARCHED.get(file, "") + _CODE_OR_LINK.sub(changed, text)
        if place.language == "zh":
            text = _CHINESE_LINES.sub("", text)
        if _DIAGRAM in text:
            # Here alone: it is larger than all the rest of a page.
            text += f'\n<script src="{"../" * place.path.count("/")}assets/mermaid.min.js"></script>\n'
        return text

    def _target(self, file: str, place: Place, target: str) -> tuple[str, str]:
        """The file, and the address that leads to it."""
        path, mark, anchor = target.partition("#")
        other = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        self._open.append(other)
        other_place = place_of(other, is_folder=(ROOT / other).is_dir())
        return other, link(place, other_place, self._version) + mark + anchor

    def _listing(self, file: str, folder: Path) -> str:
        """A folder: what it says of itself, or its files."""
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith(("_", ".", "node_modules")))
        readme = folder / "README.md"
        if readme in inside:
            place = Place("en", f"files/{file}/README.md")
            self._done.add(f"{file}/README.md")
            return self._page(f"{file}/README.md", place, readme.read_text("utf-8"))
        rows = []
        for path in inside:
            name = path.relative_to(ROOT).as_posix()
            self._open.append(name)
            rows.append(
                f"- [{path.name}]({link(place_of(file, is_folder=True), place_of(name, is_folder=path.is_dir()), '')})"
            )
        return f"# {file}/\n\nFiles of the repository.\n\n" + "\n".join(rows) + "\n"


def _shown(file: str, text: str) -> str:
    kind = _KINDS.get(posixpath.splitext(file)[1], "text")
    return f"# {file}\n\nA file of the repository.\n\n````{kind}\n{text.rstrip()}\n````\n"
