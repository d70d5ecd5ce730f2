"""Matches topic filters of subscribe rows: `+` stands for one level, a final `#` for all that follow."""


def matches(pattern: str, topic: str) -> bool:
    levels, names = pattern.split("/"), topic.split("/")
    if levels[-1] == "#":
        levels.pop()
        names = names[: len(levels)]  # `a/#` takes `a` and everything below it
    return len(levels) == len(names) and all(level in ("+", name) for level, name in zip(levels, names, strict=True))
