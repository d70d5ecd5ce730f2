"""Causal order through HTTP: programs at three nodes of a cluster with bad links, questions and answers."""

import asyncio

from antecede import Node
from tests.client.running import awaited
from tests.node.clusters import cluster
from tests.node.http_client import ask, connection, port_of, stream

QUESTIONS = 40
#: Most packets are quick and some take a while, and the latter must not be overtaken by what follows them.
BAD_LINKS = ("heavy-tailed:mean=0.02,shape=1.2,t_pc=0,t_t=0",)


async def answer(reads: Node, publishes: Node, after: bool) -> None:
    """Answer every question on another topic, as soon as it was read; at another node with `Antecede-After`."""
    async with stream(reads, "filter=questions/%23&since=0") as questions, connection(port_of(publishes)) as answers:
        for _ in range(QUESTIONS):
            (question,) = await questions.messages(1)
            headers = {"Antecede-After": question.id} if after else {}
            await answers.send("POST", "/topics/answers", b"re " + question.data["text"].encode(), headers)
            assert (await answers.reply()).status == 200


@awaited
async def test_no_reader_is_given_an_answer_before_its_question() -> None:
    """One program reads and answers at the same node, another one reads at one node and answers at the next."""
    async with (
        cluster(3, http_port=0, fault_injection=BAD_LINKS) as nodes,
        stream(nodes[2], "filter=questions/%23&filter=answers") as events,
    ):
        replies = asyncio.gather(answer(nodes[1], nodes[1], False), answer(nodes[0], nodes[1], True))
        for number in range(QUESTIONS):
            assert (await ask(nodes[0], "POST", f"/topics/questions/{number % 7}", b"%d" % number)).status == 200
        await replies
        found = [event.data["text"] for event in await events.messages(3 * QUESTIONS)]
        for number in range(QUESTIONS):
            assert found.count(f"re {number}") == 2
            assert found.index(f"{number}") < found.index(f"re {number}")
