"""Finds dead links, dead anchors and whatever a built site loads from elsewhere."""

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose address a browser loads by itself.
_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "audio": "src",
    "video": "src",
    "object": "data",
}
_LOADED_RELS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "prefetch", "manifest"}
_IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
_MERMAID = "mermaid.min.js"


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.has_diagram = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.has_diagram |= tag == "pre" and "mermaid" in given.get("class", "").split()
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and _LOADED_RELS & set(given.get("rel", "").split()):
            self.loaded.append(given["href"])
        if given.get(_LOADED.get(tag, "")):
            self.loaded.append(given[_LOADED[tag]])
        self.loaded += _addresses(given.get("style", ""))


def faults(site: Path) -> list[str]:
    """One sentence for each; `site` is the folder that is served."""
    pages = {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html")) if path.is_file()}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        found += [f"{name}: loads {address} from elsewhere" for address in page.loaded if _is_elsewhere(address)]
        # The theme would fetch the library from another host.
        if page.has_diagram and not any(address.endswith(_MERMAID) for address in page.loaded):
            found.append(f"{name}: has a diagram but not {_MERMAID}")
        if path.name == "404.html":
            continue  # served at any address, so its links are from the root
        for address in {*page.links, *page.loaded}:
            fault = _fault(site, pages, name, address)
            if fault is not None:
                found.append(f"{name}: {address}: {fault}")
    for path in sorted(site.rglob("*.css")):
        name = path.relative_to(site).as_posix()
        found += [f"{name}: loads {one}" for one in _addresses(path.read_text("utf-8")) if _is_elsewhere(one)]
    return found


def _addresses(style: str) -> list[str]:
    return [first or second for first, second in _IN_STYLES.findall(style)]


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _fault(site: Path, pages: dict[Path, _Page], name: str, address: str) -> str | None:
    if _is_elsewhere(address) or address.startswith("data:"):
        return None
    parts = urlsplit(address)
    # A browser takes what leads above the root for the root; below a prefix it would not.
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
    if target.startswith(("..", "/")):
        return "leads out of the site"
    path, anchor = site / target, unquote(parts.fragment)
    if path.is_dir():
        path = path / "index.html"
    if not path.is_file():
        return "no such page"
    if anchor and path in pages and anchor not in pages[path].anchors | {"__skip", "__top"}:
        return "no such heading"
    return None
