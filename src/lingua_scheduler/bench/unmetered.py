"""`lingua`, counting nothing: the same program, with every count and every measurement left out."""

import runpy

from prometheus_client import Counter, Gauge, Histogram


def _do_nothing(*_: object) -> None:
    pass


def main() -> None:
    for kind, verbs in ((Counter, ("inc",)), (Gauge, ("inc", "dec", "set")), (Histogram, ("observe",))):
        for verb in verbs:
            setattr(kind, verb, _do_nothing)
    runpy.run_module("lingua_scheduler", run_name="__main__")


if __name__ == "__main__":
    main()
