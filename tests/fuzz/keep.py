"""Keeps of a fuzzer's inputs the smallest for each answer of the parser, in the corpus of that parser.

python -m tests.fuzz.keep roster /tmp/fuzz-roster-…
"""

import sys
from pathlib import Path

from tests.fuzz.parsers import CORPUS, load

#: Files of one corpus: they are read by every run of the tests.
_FILES_MAX = 120


def keep(name: str, directories: list[Path]) -> int:
    """Write the corpus of a parser anew, from what it has and from `directories`. Returns how many inputs it has."""
    home = CORPUS / name
    home.mkdir(parents=True, exist_ok=True)
    inputs = {path.read_bytes() for directory in (home, *directories) for path in directory.iterdir()}
    read, kept, answers = load(name).read, [], set()
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        answer = frozenset(read(data))
        if answer and answer not in answers and len(kept) < _FILES_MAX:
            answers.add(answer)
            kept.append(data)
    for path in home.iterdir():
        path.unlink()
    for number, data in enumerate(kept):
        (home / f"{number:03}").write_bytes(data)
    return len(kept)


if __name__ == "__main__":
    print(keep(sys.argv[1], [Path(argument) for argument in sys.argv[2:]]), "inputs")
