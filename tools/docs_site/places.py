"""Where a file of the repository is in the site, and how pages of the site link to each other."""

import posixpath
from typing import NamedTuple

_CHINESE = "docs/zh/"
_DOCS = "docs/"
# Pages outside docs/ that have a place of their own.
_OTHERS = {
    "README.md": ("en", "overview.md"),
    "README.zh-CN.md": ("zh", "overview.md"),
    "ARCHITECTURE.md": ("en", "architecture.md"),
    "CHANGELOG.md": ("en", "changelog.md"),
    "CONTRIBUTING.md": ("en", "contributing.md"),
    "SECURITY.md": ("en", "security.md"),
}


class Place(NamedTuple):
    """`path` is that of the Markdown file or picture from which the site of `language` is built."""

    language: str
    path: str

    @property
    def url(self) -> str:
        """Below the folder of the language's site."""
        folder, name = posixpath.split(self.path)
        if name == "README.md":
            return f"{folder}/" if folder else ""
        return f"{self.path.removesuffix('.md')}/" if name.endswith(".md") else self.path


def place_of(file: str, *, is_folder: bool = False) -> Place:
    """`file` is a path in the repository; files that are no pages are shown below `files/`."""
    if file in _OTHERS:
        return Place(*_OTHERS[file])
    if file.startswith(_CHINESE):
        return Place("zh", file.removeprefix(_CHINESE))
    if file.startswith(_DOCS):
        return Place("en", file.removeprefix(_DOCS))
    if is_folder:
        return Place("en", f"files/{file}/README.md")
    return Place("en", f"files/{file}" if file.endswith(".md") else f"files/{file}.md")


def link(origin: Place, target: Place, version: str) -> str:
    """Relative to the folder of the page, as the generator wants it; it checks links between pages of one language."""
    folder = posixpath.dirname(origin.path)
    if origin.language == target.language:
        return posixpath.relpath(target.path, folder or ".")
    there = f"{target.language}/{version}/{target.url}"
    relative = posixpath.relpath(there, f"{origin.language}/{version}/{folder}")
    return f"{relative}/" if there.endswith("/") else relative
