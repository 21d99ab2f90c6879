"""`lingua`: one command a file."""

import click

from lingua_scheduler.cli import bench, demo, drain, node, nodes, pools, serve, status, translate, version


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """A real-time speech-translation scheduler.

    \b
    Try it:       lingua demo
    Run it:       lingua serve
    Add a node:   lingua node --engine sim
    Speak to it:  lingua translate speech.wav --from en --to zh
    Look at it:   lingua status
    """


for command in (
    serve.serve,
    demo.demo,
    node.node,
    translate.translate,
    status.status,
    pools.pools,
    nodes.nodes,
    nodes.node_info,
    drain.drain,
    drain.resume,
    bench.bench,
    version.version,
):
    main.add_command(command)
