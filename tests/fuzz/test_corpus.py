"""Every input that fuzzing kept, and every seed, is read again: a parser answers, or raises the error it may raise."""

import pytest

from tests.fuzz.parsers import CORPUS, PARSERS, load


@pytest.mark.parametrize("name", PARSERS)
def test_what_fuzzing_kept(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    read = load(name).read
    for path in inputs:
        assert read(path.read_bytes()), path


@pytest.mark.parametrize("name", PARSERS)
def test_real_inputs(name: str) -> None:
    parser = load(name)
    for seed, data in parser.seeds().items():
        assert parser.read(data), seed


def test_there_is_a_corpus_for_each_parser_and_it_is_small() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(PARSERS)
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
