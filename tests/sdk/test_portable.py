"""What Windows and macOS need, as far as it can be seen here: no module needs what only Unix has when it is imported,
and a node can say what machine it is on. It was not run on Windows or macOS.
"""

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "lingua-sdk" / "src" / "lingua_sdk"
UNIX = ("fcntl", "grp", "posix", "pwd", "resource", "termios", "tty", "pty", "syslog", "uvloop")
# What the rest of Python has there is imported first, for it is another on Windows.
PROGRAM = """
import asyncio, importlib, os, pkgutil, signal, socket, sys
unix, others = (part.split() for part in sys.argv[1:])
for name in others:
    importlib.import_module(name)
for name in (*unix, "lingua_scheduler", "aiohttp"):
    sys.modules[name] = None
for owner, names in (
    (os, "register_at_fork fork getuid geteuid killpg setsid getloadavg sysconf uname fchmod"),
    (signal, "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGCHLD SIGALRM SIGQUIT"),
    (socket, "AF_UNIX"),
):
    for name in names.split():
        delattr(owner, name)
sys.platform = "win32"
import lingua_sdk
names = [one.name for one in pkgutil.walk_packages(lingua_sdk.__path__, "lingua_sdk.")]
for name in names:
    importlib.import_module(name)
from lingua_sdk import load
assert 0 <= load.Processors().percent() <= 100 and 0 <= load.memory_percent() <= 100
assert load.memory_gb() == 0
print(len(names))
"""


def test_every_module_can_be_imported_without_unix() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    others = {name for name in found if name.split(".")[0] not in (*UNIX, "lingua_sdk", "opentelemetry")}
    words = [sys.executable, "-c", PROGRAM, " ".join(UNIX), " ".join(sorted(others))]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert int(ran.stdout) > 50
