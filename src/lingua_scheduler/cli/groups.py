"""Groups of commands whose help shows the summary of each command whole, on as many lines as it needs."""

import click

# Longer than any summary: click would cut it to what fits one line.
_WHOLE = 1_000


class Group(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(_WHOLE)) for name, one in found if one is not None and not one.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
