"""A shared text: several people edit one line at once, and all end with the same.

    python examples/shared_text.py [URL]

A replicated growable array, the smallest of text CRDTs: every character has a name and is inserted *after* another one;
a deletion names what it deletes. It only works if an edit arrives after the edits it refers to. Causal order gives
exactly that, so there is no waiting list and no version vector in this file.
"""

import asyncio
import json
import sys

import antecede

TOPIC = "texts/shared"

#: A character's name: how many edits its author knew of, and the author. Later ones sort higher.
Name = tuple[int, str]
ROOT: Name = (0, "")


class Text:
    """One replica. Characters stay in place when deleted, as their successors refer to them."""

    def __init__(self, author: str) -> None:
        self.author = author
        self._clock = 0
        self._order: list[Name] = [ROOT]
        self._letters: dict[Name, str] = {ROOT: ""}

    def __str__(self) -> str:
        return "".join(self._letters[name] for name in self._order)

    def typed(self, position: int, letter: str) -> dict[str, object]:
        """The edit that puts `letter` behind the visible character at `position`; −1: in front."""
        visible = [name for name in self._order if self._letters[name]]
        after = visible[position] if position >= 0 and visible else ROOT
        return {"insert": letter, "name": [self._clock + 1, self.author], "after": list(after)}

    def deleted(self, position: int) -> dict[str, object]:
        visible = [name for name in self._order if self._letters[name]]
        return {"delete": list(visible[position])}

    def apply(self, edit: dict[str, object]) -> None:
        """Take an edit, one's own included. What it refers to is here: that is what causal order means."""
        if "delete" in edit:
            self._letters[_name(edit["delete"])] = ""
            return
        name, after = _name(edit["name"]), _name(edit["after"])
        at = self._order.index(after) + 1
        while at < len(self._order) and self._order[at] > name:  # of several at one place, the latest comes first
            at += 1
        self._order.insert(at, name)
        self._letters[name] = str(edit["insert"])
        self._clock = max(self._clock, name[0])


def _name(value: object) -> Name:
    assert isinstance(value, list)
    return int(value[0]), str(value[1])


async def write(url: str, author: str, line: str, edits: int) -> str:
    """Type `line` at the end, delete its first letter, and read until all edits are here. The text then."""
    text = Text(author)
    async with antecede.connect(url, name=author) as bus, bus.subscribe(TOPIC, since="0") as feed:
        todo: list[str | None] = [*line, None]
        taken = 0
        while taken < edits:
            if todo:
                letter = todo.pop(0)
                end = len(str(text)) - 1
                edit = text.deleted(0) if letter is None else text.typed(end, letter)
                text.apply(edit)  # at once, here; the others when it arrives
                await bus.publish(TOPIC, json.dumps(edit | {"author": author}).encode())
            message = await anext(feed)
            edit = json.loads(message.payload)
            taken += 1
            if edit["author"] != author:
                text.apply(edit)
    return str(text)


async def run(url: str) -> dict[str, str]:
    lines = {"ann": "causal ", "ben": "order ", "cleo": "matters "}
    edits = sum(len(line) + 1 for line in lines.values())
    async with antecede.connect(url):  # keeps an embedded node while people come and go
        texts = await asyncio.gather(*[write(url, author, line, edits) for author, line in lines.items()])
    return dict(zip(lines, texts, strict=True))


def main(arguments: list[str]) -> None:
    texts = asyncio.run(run(arguments[0] if arguments else "memory://text"))
    for author, text in texts.items():
        print(f"{author:5} {text!r}")
    assert len(set(texts.values())) == 1


if __name__ == "__main__":
    main(sys.argv[1:])
