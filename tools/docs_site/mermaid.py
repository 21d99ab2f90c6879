"""The library that draws diagrams, fetched once: the generator would load it from another host."""

from pathlib import Path

from tools.npm_files import Package

_PACKAGE = Package(
    "mermaid@11.17.2",
    "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg==",
)
_FILE = "dist/mermaid.min.js"


def fetch(folder: Path) -> Path:
    """The script, in `folder`."""
    script = folder / f"{_PACKAGE.name}.js"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        script.write_bytes(_PACKAGE.read([_FILE])[_FILE])
    return script
