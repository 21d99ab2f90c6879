"""Several commands, each in a fork of one interpreter that has imported them: that takes most of the time of each.

Run as a program with a list of argument lists in JSON; after the output of each comes `END` with its exit code."""

import gc
import json
import os
import re
import sys

from lingua_scheduler.cli.main import main

END = "\x1e"
_OUTPUT = re.compile(rf"(.*?){END}(\d+)\n", re.DOTALL)


def outputs(text: str) -> list[tuple[str, int]]:
    """Of each command what it wrote, and its exit code."""
    return [(output, int(code)) for output, code in _OUTPUT.findall(text)]


def _run(arguments: list[str]) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(main(arguments, prog_name="lingua"))


if __name__ == "__main__":
    lists = json.loads(sys.argv[1])
    for first, *_ in lists:
        _ = main.commands[first]
    # Or each fork would go through all of it, and so copy it, once more when it ends.
    gc.freeze()
    for each in lists:
        os.write(1, f"{END}{_run(each)}\n".encode())
