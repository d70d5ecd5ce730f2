"""The command line: `antecede --help`.

Each command calls a function of the package and prints what it returns. Exit code 2: the user made a mistake (an
option, a file, a missing extra), told in one line on standard error. Exit code 1: something failed while the command
ran (a run, a rule of the audit, the disk). Exit code 130: Ctrl-C.
"""

import sys


def main() -> None:
    """Run the command line; print antecede's own errors as one line."""
    try:
        _run(sys.argv[1] if len(sys.argv) > 1 else "")
    except KeyboardInterrupt:  # also while Python still imports
        sys.stderr.write("stopped\n")
        sys.exit(130)


def version_line() -> str:
    """The version, and whether its compiled modules run."""
    from antecede import __version__  # noqa: PLC0415
    from antecede.loading import loads_compiled  # noqa: PLC0415

    return f"antecede {__version__} ({'compiled' if loads_compiled() else 'interpreted'})"


def _run(command: str) -> None:
    if command == "--version":  # scripts ask often: answer before anything is imported
        sys.stdout.write(f"{version_line()}\n")
        return
    if command == "explore":  # it reads every attribute and closure of a process, and compiled functions show none
        from antecede.loading import load_interpreted  # noqa: PLC0415

        load_interpreted()

    from antecede.cli.commands import make_app  # noqa: PLC0415 - inside, so that Ctrl-C has an answer from the start
    from antecede.core import AntecedeError  # noqa: PLC0415

    try:
        make_app(command)()
    except AntecedeError as error:
        _print_error(str(error))
        sys.exit(2)
    except OSError as error:  # a full disk, a file without permission: whatever no command handles by itself
        _print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(1)


def _print_error(text: str) -> None:
    from rich.console import Console  # noqa: PLC0415

    from antecede.cli.printing import printable  # noqa: PLC0415 - a refusal is text from another machine

    text = f"error: {printable(text)}"
    Console(stderr=True, soft_wrap=True).print(text, style="bold red", markup=False, highlight=False)
