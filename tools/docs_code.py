"""Type-checks the Python in the documents: python -m tools.docs_code. A part of make check."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.code_blocks import ROOT, blocks

# Examples are short: they need no annotations, but what they call must be there and take what they give.
_HEAD = "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, check-untyped-defs\n"
# The protocols of engines know one method each: an engine with batches alone is accepted when it runs, not by mypy.
_BATCHES = '# mypy: disable-error-code="arg-type"\n'


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        names = {}
        for number, block in enumerate(one for one in blocks() if one.language == "python"):
            path = Path(scratch) / f"block_{number}.py"
            path.write_text(_HEAD + _BATCHES * ("_batch(" in block.code) + block.code, "utf-8")
            names[str(path)] = block
        # With the cache of the run before it, this takes seconds.
        run = subprocess.run(
            [sys.executable, "-m", "mypy", "--no-error-summary", *names],
            check=False,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
    said = run.stdout
    for name, block in names.items():
        said = said.replace(name, f"{block.place} (a block; the line in it is greater by a few)")
    print(said or f"{len(names)} blocks of Python in the documents have the right types.")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
