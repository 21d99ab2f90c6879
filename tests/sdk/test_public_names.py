"""What is public is declared once, typed, and documented."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lingua_sdk

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sdk.md").read_text("utf-8")


def test_what_is_declared_is_there_and_has_types() -> None:
    stub = ast.parse((ROOT / "lingua-sdk/src/lingua_sdk/__init__.pyi").read_text("utf-8"))
    typed = {(node.module, one.name) for node in stub.body if isinstance(node, ast.ImportFrom) for one in node.names}
    assert {name for _, name in typed} == set(lingua_sdk.__all__)
    for module, name in typed:
        if module != "lingua_sdk":
            assert module is not None
            assert getattr(lingua_sdk, name) is getattr(sys.modules[module], name)


@pytest.mark.parametrize("name", lingua_sdk.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    code = " ".join(re.findall(r"```python.*?```|`[^`\n]+`", PAGE, re.DOTALL))
    assert re.search(rf"\b{name}\b", code)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nod'"):
        lingua_sdk.Nod  # type: ignore[attr-defined] # noqa: B018


def test_a_node_loads_nothing_that_it_does_not_need() -> None:
    words = "import sys, lingua_sdk; lingua_sdk.Node; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in ran.stdout.split()}
    assert loaded & {"lingua_sdk", "websockets"} == {"lingua_sdk", "websockets"}
    assert not loaded & {
        "lingua_scheduler",
        "aiohttp",
        "redis",
        "uvloop",
        "click",
        "rich",
        "structlog",
        "cryptography",
        "jwt",
    }
    assert "lingua_sdk.client" not in ran.stdout.split()
