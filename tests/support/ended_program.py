"""A program under test that has ended, and can be started to no effect."""


class EndedProgram:
    def __init__(self) -> None:
        self.starts = 0

    @property
    def is_running(self) -> bool:
        return False

    def output(self) -> str:
        return ""

    async def start(self) -> None:
        self.starts += 1

    def ask_to_leave(self) -> None:
        pass

    async def exit_code(self, within_s: float) -> int | None:
        return 1
