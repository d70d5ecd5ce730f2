"""The command line: `antecede --help`.

Every command is a thin shell around a function of the package. Mistakes are answered in one line on standard error and
with exit code 2; what went wrong while running (a failed run, a violated order) with exit code 1.
"""

import sys


def main() -> None:
    """Run the command line and turn our own errors into one line."""
    try:
        _run(sys.argv[1] if len(sys.argv) > 1 else "")
    except KeyboardInterrupt:  # also while Python still imports
        sys.stderr.write("stopped\n")
        sys.exit(130)


def _run(command: str) -> None:
    from antecede.cli.commands import make_app  # noqa: PLC0415 - inside, so that Ctrl-C has an answer from the start
    from antecede.core import AntecedeError  # noqa: PLC0415

    try:
        make_app(command)()
    except AntecedeError as error:
        _complain(str(error))
        sys.exit(2)
    except OSError as error:  # a disk that is full, a file that may not be read: what was not foreseen more closely
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(1)


def _complain(words: str) -> None:
    from rich.console import Console  # noqa: PLC0415

    Console(stderr=True, soft_wrap=True).print(f"error: {words}", style="bold red", markup=False, highlight=False)
