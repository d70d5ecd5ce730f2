"""`python -m antecede.node CONFIG`: a node and nothing else, started in a fraction of the command line's time."""

import logging
import sys
from pathlib import Path

from antecede.core import AntecedeError
from antecede.node.config import load_config
from antecede.node.event_loop import run_on_loop
from antecede.node.node import Node
from antecede.node.run import run_node


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m antecede.node CONFIG.toml\n")
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)

    def ready(node: Node) -> None:
        sys.stdout.write(f"ready {node.slot} {node.url}\n")
        sys.stdout.flush()

    try:
        config = load_config(Path(arguments[0]))
        run_on_loop(config, run_node(config, ready))
    except AntecedeError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
