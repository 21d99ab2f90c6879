"""What a person sees on a terminal while they speak: how much was said, and what was understood so far."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import Progress, ProgressColumn
from rich.text import Text


class LiveScreen:
    """Below what is printed, and gone at the end. Without a terminal nothing of it is shown."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self._progress: Progress | None = None
        # Of utterances without an outcome, the latest partial text of each.
        self._partials: dict[int, str] = {}
        self._live = Live(
            console=Console(stderr=True),
            get_renderable=self._render,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            refresh_per_second=10,
        )

    def __enter__(self) -> Self:
        if self._is_shown:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def progress(self, *columns: ProgressColumn) -> Progress:
        """Replaces the one before; it is drawn with the screen, and not started by itself."""
        self._progress = Progress(*columns, auto_refresh=False, disable=not self._is_shown)
        return self._progress

    def end_progress(self) -> None:
        self._progress = None

    def understood(self, index: int, text: str) -> None:
        """What was understood so far of an utterance; empty when its outcome is there."""
        self._partials.pop(index, None)
        if text:
            self._partials[index] = text

    def _render(self) -> RenderableType:
        lines: list[RenderableType] = [
            Text(f"{index + 1:>3}  {text} …", style="dim italic", no_wrap=True, overflow="ellipsis")
            for index, text in sorted(self._partials.items())
        ]
        if self._progress is not None:
            lines.append(self._progress.get_renderable())
        return Group(*lines)
