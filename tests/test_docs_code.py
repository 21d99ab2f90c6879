"""The code in the documents: every block says its language, and is run, compiled or parsed by what would read it."""

import ast
import importlib
import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from lingua_scheduler.configuration.loading import load
from lingua_scheduler.services.access.keys_file import KeysFile
from tests.support.command_lines import commands, fault
from tools.code_blocks import Block, blocks

BLOCKS = list(blocks())
# Who tests the rest: diagrams and samples of other programs are parsed by those programs.
ELSEWHERE = {
    "haproxy": "tests/e2e/test_deploy_page.py",
    "lua": "tests/test_docs.py",
    "mermaid": "make docs-site",
    "nginx": "tests/e2e/test_forwarded_certificates.py",
    "text": "no program reads it",
    "tsx": "the examples are compiled as a whole",
}
HERE = {"js", "json", "python", "sh", "toml", "yaml"}


def of(*languages: str) -> pytest.MarkDecorator:
    found = [block for block in BLOCKS if block.language in languages]
    assert found
    return pytest.mark.parametrize("block", found, ids=lambda block: block.place)


def test_every_block_says_what_it_is() -> None:
    assert [block.place for block in BLOCKS if block.language not in HERE | ELSEWHERE.keys()] == []


@of("sh")
def test_a_shell_script_can_be_parsed_and_its_commands_exist_with_these_options(block: Block) -> None:
    parsed = subprocess.run(["bash", "-n"], input=block.code, check=False, capture_output=True, text=True)
    assert (parsed.returncode, parsed.stderr) == (0, "")
    assert [(found, why) for found in commands(block.code) if (why := fault(found)) is not None] == []


@of("python")
def test_python_compiles_and_imports_what_there_is(block: Block) -> None:
    tree = ast.parse(block.code, block.place)
    compile(tree, block.place, "exec")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lingua_scheduler"):
            module = importlib.import_module(node.module)
            assert [one.name for one in node.names if not hasattr(module, one.name)] == []


@of("toml")
def test_settings_and_keys_are_loaded(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "lingua.toml"
    file.write_text(block.code, "utf-8")
    file.chmod(0o600)
    if "keys" in tomllib.loads(block.code):
        keys = KeysFile(file)
        keys.read()
        assert keys.known.credentials
    else:
        load(config_path=file, environment={}, flags={})


@of("json")
def test_json_is_json(block: Block) -> None:
    assert isinstance(json.loads(block.code), dict)


def test_yaml_is_yaml() -> None:
    for block in BLOCKS:
        if block.language == "yaml":
            assert all(isinstance(part, dict | list) for part in yaml.safe_load_all(block.code)), block.place


@of("js")
def test_javascript_can_be_parsed(block: Block, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js on this machine")
    file = tmp_path / "block.mjs"
    file.write_text(block.code, "utf-8")
    checked = subprocess.run([node, "--check", str(file)], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


# What looks for the commands


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("lingua nodes", [["nodes"]]),
        (".venv/bin/lingua nodes --json | jq .  # all", [["nodes", "--json"]]),
        ("A=1 B='2 3' lingua serve && lingua top &", [["serve"], ["top"]]),
        ("lingua login < admin.key", [["login"]]),
        ("export KEY=$(lingua keys create --kind service)", [["keys", "create", "--kind", "service"]]),
        ("runuser -u lingua -- /opt/lingua/.venv/bin/lingua status \\\n  --check", [["status", "--check"]]),
        ("install -o root -g lingua x /etc/lingua\nsystemctl enable --now lingua", []),
    ],
)
def test_commands_are_found(script: str, found: list[list[str]]) -> None:
    assert list(commands(script)) == found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fly", "No such command 'fly'"),
        ("nodes --sideways", "No such option"),
        ("keys create --kind tractor", "is not one of"),
        ("keys create extra", "unexpected argument"),
        ("release", "Missing argument 'NODE_ID'"),
        ("demo --port 70000", "not in the range"),
        ("token create", "Missing option '--sub'"),
        ("keys", "no sub-command"),
    ],
)
def test_a_command_that_would_not_run_is_noticed(line: str, said: str) -> None:
    assert said in (fault(line.split()) or "accepted")


@pytest.mark.parametrize("line", ["--version", "serve --help", "demo --port 0 --once", "pools en fr", "release node-7"])
def test_a_command_that_would_run_is_not(line: str) -> None:
    assert fault(line.split()) is None
