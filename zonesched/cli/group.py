"""A group of commands: alone it prints its help, and a mistyped command gets the nearest one suggested."""

from __future__ import annotations

import difflib

import click


class CommandGroup(click.Group):
    """A click group that does both; so do groups made by its `group` decorator."""

    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help where no arguments are given, and exit with 0."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first argument. Raises UsageError with the nearest name."""
        name = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, name) is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {name!r}.{hint}")
        return super().resolve_command(ctx, args)
