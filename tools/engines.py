"""Measures the speech engines that are installed here: memory and time of each. Run with `python -m tools.engines`.

Every engine is loaded in a process of its own. Times are the best of several, so that a busy machine counts little."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lingua_scheduler.cli.speech import engines
from lingua_scheduler.engines import catalogue
from lingua_scheduler.engines.catalogue import Choices
from lingua_sdk import wav
from lingua_sdk.audio import Audio

REPEATS = 7
SAMPLE = Path(__file__).parents[1] / "src/lingua_scheduler/cli/assets/sample-en.wav"
TEXTS = {
    "en": "Good morning. Where is the train station? My train leaves at nine o'clock.",
    "pt": "Bom dia. Onde fica a estação de trem? Meu trem sai às nove horas.",
    "es": "Buenos días. ¿Dónde está la estación? Mi tren sale a las nueve.",
    "zh": "早上好。请问火车站在哪里？我的火车九点开。",
}


def main() -> None:
    print("| engine | does | language | loaded in | memory | time | CPU time |\n|---|---|---|---|---|---|---|")
    for part in catalogue.PARTS:
        subprocess.run([sys.executable, "-m", "tools.engines", part.stage, part.name], check=False)


def measure(stage: str, name: str) -> None:
    part = next(part for part in catalogue.PARTS if (part.stage, part.name) == (stage, name))
    before_mb, began = _memory_mb(), time.monotonic()
    try:
        engine = part.load(Choices(engines.shelf(None)))
    except Exception:
        return
    for language, work in _works(stage, engine):
        work()
        loaded_s, took_mb = time.monotonic() - began, _memory_mb() - before_mb
        best_ms = min(_took_ms(work, time.perf_counter) for _ in range(REPEATS))
        cpu_ms = min(_took_ms(work, time.process_time) for _ in range(REPEATS))
        figures = f"{loaded_s:.1f} s | {took_mb} MB | {best_ms:.0f} ms | {cpu_ms:.0f} ms"
        print(f"| {name} | {stage} | {language} | {figures} |")
    if hasattr(engine, "close"):
        engine.close()


def _works(stage: str, engine: Any) -> list[tuple[str, Callable[[], Any]]]:
    match stage:
        case "recogniser":
            spoken = Audio(wav.read(SAMPLE))
            return [("en", lambda: engine.recognise(spoken, "en", lambda _: None))]
        case "repairer":
            return [("en", lambda: engine.repair(TEXTS["en"], "en"))]
        case "translator":
            return [
                (f"{pair[0]} → {pair[1]}", lambda pair=pair: engine.translate(TEXTS[pair[0]], *pair))  # type: ignore[misc]
                for pair in engine.pairs
                if pair[0] in TEXTS
            ]
        case _:
            known = [language for language in TEXTS if language in engine.languages]
            return [(language, lambda language=language: engine.speak(TEXTS[language], language)) for language in known]  # type: ignore[misc]


def _took_ms(work: Callable[[], Any], clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return (clock() - began) * 1000


def _memory_mb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 // 2**20


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(sys.argv[1], sys.argv[2])
    else:
        main()
