"""Coverage-guided fuzzing of one parser, with libFuzzer's own options (needs the extra `fuzz`).

    make fuzz                                                  # a minute of each
    python -m tests.fuzz.run roster -max_total_time=600        # longer
    python -m tests.fuzz.run roster -runs=0 FILE               # an input that failed

The fuzzer starts from the corpus of the parser and from its seeds. New inputs go to a directory whose name is printed;
`tests.fuzz.keep` takes some of them over into the corpus.
"""

import sys
import tempfile
import zlib
from pathlib import Path

import atheris

from tests.fuzz.parsers import CORPUS, PARSERS, load


def main() -> None:
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=list(PARSERS[name])):
        parser = load(name)
    #: Functions that do nothing but be covered.
    marks = [atheris.instrument_func(lambda: None) for _ in range(2048)]

    def one_input(data: bytes) -> None:
        for said in parser.read(data):
            marks[zlib.crc32(said.encode("utf-8", "replace")) % len(marks)]()

    directory = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    for seed, data in parser.seeds().items():
        (directory / f"seed-{seed}").write_bytes(data)
    print("new inputs go to", directory, flush=True)
    limits = ["-max_len=8192", "-timeout=20", "-rss_limit_mb=2048"]
    atheris.Setup(["fuzz", *limits, *options, str(directory), str(CORPUS / name)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
