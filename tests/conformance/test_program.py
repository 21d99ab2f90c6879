"""The program under test as a process of its own."""

import shlex
import sys
from pathlib import Path

from lingua_scheduler.conformance.program import MAX_OUTPUT_BYTES, URL_VARIABLE, Program

LONG_S = 120.0
ENDLESS = "import time\nprint('up', flush=True)\ntime.sleep(3600)"


def program(code: str, folder: Path) -> Program:
    return Program(shlex.join([sys.executable, "-c", code]), "ws://here/ws/node", folder / "output")


async def test_it_has_the_address_and_its_output_is_kept(tmp_path: Path) -> None:
    one = program(f"import os; print(os.environ['{URL_VARIABLE}'])", tmp_path)
    assert one.output() == ""
    await one.start()
    assert await one.exit_code(LONG_S) == 0
    assert one.output() == "ws://here/ws/node\n"
    assert not one.is_running


async def test_of_much_output_the_end_is_kept(tmp_path: Path) -> None:
    one = program(f"print('x' * {MAX_OUTPUT_BYTES} + 'end')", tmp_path)
    await one.start()
    await one.exit_code(LONG_S)
    assert len(one.output()) == MAX_OUTPUT_BYTES
    assert one.output().endswith("end\n")


async def test_the_signal_reaches_the_program_and_not_a_shell(tmp_path: Path) -> None:
    one = program(ENDLESS, tmp_path)
    await one.start()
    assert one.is_running
    assert await one.exit_code(0.01) is None
    one.ask_to_leave()
    assert await one.exit_code(LONG_S) == -15


async def test_a_second_start_ends_the_first_process(tmp_path: Path) -> None:
    one = program(ENDLESS, tmp_path)
    await one.start()
    await one.start()
    assert one.is_running
    await one.stop()
    assert not one.is_running
