"""`lingua`, the same program, that collects its garbage when it is sent SIGUSR1."""

import gc
import runpy
import signal


def _collect(*_: object) -> None:
    gc.collect()


def main() -> None:
    signal.signal(signal.SIGUSR1, _collect)
    runpy.run_module("lingua_scheduler", run_name="__main__")


if __name__ == "__main__":
    main()
