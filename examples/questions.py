"""Questions and answers on two topics: an answer never precedes its question, though they are different topics.

    python examples/questions.py [URL]

One reader follows both topics in one feed; another follows only the answers and asks nothing.
"""

import asyncio
import sys

import antecede

QUESTIONS = ["what is a barrier?", "what is a frontier?", "who forwards to whom?"]


async def answerer(url: str, ready: asyncio.Event, count: int) -> None:
    """Answers whatever is asked. Reading the question and then publishing *is* the dependency."""
    async with antecede.connect(url, name="answerer") as bus, bus.subscribe("questions/#") as feed:
        ready.set()
        for _ in range(count):
            question = await anext(feed)
            await bus.publish("answers/all", b"re: " + question.payload)


async def run(url: str) -> list[tuple[str, str]]:
    """What a reader of both topics saw, in order."""
    ready = asyncio.Event()
    seen: list[tuple[str, str]] = []
    async with antecede.connect(url, name="reader") as bus, bus.subscribe("questions/#", "answers/#") as feed:
        answering = asyncio.create_task(answerer(url, ready, len(QUESTIONS)))
        await ready.wait()
        for number, question in enumerate(QUESTIONS):
            await bus.publish(f"questions/{number}", question.encode())
        for _ in range(2 * len(QUESTIONS)):
            message = await anext(feed)
            seen.append((message.topic, message.payload.decode()))
        await answering
    return seen


def main(arguments: list[str]) -> None:
    url = arguments[0] if arguments else "memory://questions"
    asked: set[str] = set()
    for topic, text in asyncio.run(run(url)):
        print(f"{topic:14} {text}")
        if topic.startswith("answers"):
            assert text.removeprefix("re: ") in asked
        asked.add(text)


if __name__ == "__main__":
    main(sys.argv[1:])
