"""Times and bounds of a pipelined node."""

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Times and bounds. They affect speed and memory, never what is delivered."""

    #: An acknowledgement waits so long for company, or until so many messages have come.
    ack_us: int
    ack_every: int
    #: What is not acknowledged after this is sent again; what is missing after this is asked for. Longer than it takes
    #: to cross a tree and come back, else it costs packets.
    retry_us: int
    #: Pauses double up to this many times `retry_us`.
    backoff_max: int = 8
    #: After so many tries without a sign of life we stop asking until something happens (a packet, the failure
    #: detector): a node that crashed unnoticed must not keep others awake for ever.
    attempts_max: int = 40
    #: After `attempts_max` tries go on asking this seldom, for ever; 0: stop, as above.
    slow_us: int = 0
    #: A node gives up a message that only members that are down may have after so many tries: about an hour where
    #: `slow_us` is ten seconds. Tries end at `attempts_max` where `slow_us` is 0.
    absent_attempts_max: int = 400
    #: Messages sent again at once to one node. A node that lacks more fetches by itself (`catching_up`).
    burst: int = 64
    #: Messages of one source in memory, and their payload bytes, for members that are behind or down. With a log
    #: (`State.logged`) older ones are read from there. Without one, a member away for longer joins anew.
    retain: int = 100_000
    retain_bytes: int = 64 * 1024 * 1024
    #: A node that is behind asks for so many messages at a time.
    chunk: int = 1024
    #: Messages that cannot be delivered yet are held up to so many bytes; beyond it they are refused and fetched later.
    held_bytes_max: int = 64 * 1024 * 1024
    #: A member that takes longer than this for the messages of a full window holds publishers up no more; 0: it may
    #: hold them up for as long as it is up.
    patience_us: int = 0

    def pause_us(self, attempts: int) -> int:
        if self.slow_us and attempts > self.attempts_max:
            return self.slow_us
        return self.retry_us * min(self.backoff_max, 1 << min(attempts, 10))

    def goes_on(self, attempts: int) -> bool:
        """Ask again after so many tries in vain?"""
        return attempts <= self.attempts_max or self.slow_us > 0
