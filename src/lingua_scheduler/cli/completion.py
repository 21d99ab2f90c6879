"""`lingua completion`"""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
# A ~/.zshrc without compinit has no compdef. As a file of fpath the script must begin with #compdef.
ZSH_BEGINS = (
    "#compdef lingua\n",
    "#compdef lingua\n\n(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n",
)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and options.

    \b
    bash: lingua completion bash >> ~/.bashrc
    zsh:  lingua completion zsh >> ~/.zshrc
    fish: lingua completion fish > ~/.config/fish/completions/lingua.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # click knows these three
    script = found(context.find_root().command, {}, "lingua", "_LINGUA_COMPLETE").source()
    click.echo(script.strip().replace(*ZSH_BEGINS))
