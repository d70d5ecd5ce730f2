"""`python -m antecede` is the command line."""

from antecede.cli import main

main()
