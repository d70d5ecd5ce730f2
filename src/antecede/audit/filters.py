"""Matches topic filters of subscribe rows, by the same rules as a node and without its code.

`+` stands for one level, a final `#` for all that follow (`a/#` takes `a` too). A wildcard at the front does not take
names that begin with `$`.
"""


def matches(pattern: str, topic: str) -> bool:
    levels, names = pattern.split("/"), topic.split("/")
    if levels[0] in ("+", "#") and topic.startswith("$"):
        return False
    if levels[-1] == "#":
        levels.pop()
        names = names[: len(levels)]
    return len(levels) == len(names) and all(level in ("+", name) for level, name in zip(levels, names, strict=True))
