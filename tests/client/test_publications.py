"""When publications are written: one that finds none under way at once, others together."""

from antecede.client.options import PUBLISH_TIMEOUT_S
from antecede.client.past import Past
from antecede.client.publications import Publications
from antecede.core.errors import StoppedError
from antecede.wire.requests import TO_NODE, Acks, Publish

from .running import awaited


@awaited
async def test_a_publication_alone_is_written_at_once_and_others_share_a_record() -> None:
    asked: list[str] = []
    bodies: list[bytes] = []

    def send() -> None:
        asked.append("now")
        publications.end_run()

    def publish(body: bytes) -> None:
        publications.submit("topic", body, None, None, None, PUBLISH_TIMEOUT_S)

    publications = Publications("here", Past(), bodies, lambda: asked.append("later"), send)
    publications.connected = True
    publish(b"1")
    assert asked == ["now"]
    publish(b"2")
    publish(b"3")
    assert asked == ["now", "later"]
    publications.end_run()
    records = TO_NODE.decode(b"\x92" + b"".join(bodies))
    assert [len(record.payloads) for record in records if isinstance(record, Publish)] == [1, 2]
    publications.acknowledged(Acks(0, ((1, 1, 3),)))
    publish(b"4")
    assert asked == ["now", "later", "now"]
    publications.break_off(StoppedError("over"))
