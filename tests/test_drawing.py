"""Tests draw their random values before they wait for a file, a socket or a process.

Hypothesis replays a failure. A run that ended at a time limit has drawn less than its replay on a machine that is less
busy. Hypothesis then reports `FlakyStrategyDefinition`, and the failure itself is hidden.
"""

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def draws_in_coroutines(tree: ast.AST) -> list[int]:
    """The lines on which a coroutine draws."""
    return [
        call.lineno
        for coroutine in ast.walk(tree)
        if isinstance(coroutine, ast.AsyncFunctionDef)
        for call in ast.walk(coroutine)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "draw"
    ]


def test_no_coroutine_draws() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line} draws in a coroutine: draw before it begins"
        for path in sorted(TESTS.rglob("*.py"))
        if ".draw(" in (code := path.read_text(encoding="utf-8"))
        for line in draws_in_coroutines(ast.parse(code))
    ]
    assert not found, "\n".join(found)


def test_a_coroutine_that_draws_is_found() -> None:
    code = "def test(data):\n    data.draw(NUMBERS)\n    async def run():\n        return [data.draw(NUMBERS)]\n"
    assert draws_in_coroutines(ast.parse(code)) == [4]
