"""How long messages were held back before they could be delivered."""

from typing import Final

from antecede.core import Message, Packet

#: Messages whose time of arrival is remembered while any is held. Beyond it hold times are not told.
_ARRIVALS_MAX: Final = 100_000


class HoldTimes:
    """Remembers when messages arrived, while any is held. Costs nothing while none is."""

    def __init__(self) -> None:
        self._came: dict[tuple[str, int, int], float] = {}

    def note(self, packets: list[Packet], now: float) -> None:
        """A message is held: it may be any of those that just arrived in `packets`."""
        if len(self._came) > _ARRIVALS_MAX:
            self._came.clear()
        for packet in packets:
            for message in packet.messages:
                self._came.setdefault((message.topic, message.source, message.seq), now)

    def hold_times_us(self, deliveries: list[Message], now: float, *, any_held: bool) -> dict[int, int]:
        """By index, the hold time of each delivery that had to wait. `any_held`: others still wait."""
        if not self._came:
            return {}
        held: dict[int, int] = {}
        for index, message in enumerate(deliveries):
            came = self._came.pop((message.topic, message.source, message.seq), now)
            if came < now:
                held[index] = int((now - came) * 1_000_000)
        if not any_held:
            self._came.clear()  # the rest was forwarded only, or a duplicate
        return held
