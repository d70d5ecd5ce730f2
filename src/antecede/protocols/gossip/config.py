"""The settings of brokers and subscribers, as `options` computes them."""

import msgspec


class GossipConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of brokers and subscribers. Counts are in rounds unless they say otherwise."""

    round_us: int
    #: How many brokers a young message is pushed to in each round.
    fanout: int = 3
    #: Size of a broker's view, for each group.
    view: int = 8
    young: int
    #: How long a message can be pulled; 0: as long as there is room.
    retain: int
    #: How long a node waits for a missing message before it gives up.
    patience: int
    #: After how many rounds without news a broker stops its rounds; 0: never.
    rest: int
    #: Every so many rounds a broker exchanges digests.
    compare: int = 3
    #: In how many rounds a message is sent to a broker's subscribers: once when it is delivered, and again.
    notices: int = 1
    #: Are missing messages pulled?
    pull: bool = True
    #: How many messages a broker stores, and their bytes of payload; and how many a node may hold.
    store_max: int = 65_536
    store_bytes_max: int = 64 * 1024 * 1024
    held_max: int = 65_536
    #: How many messages are sent in answer to one request.
    burst: int = 256
    #: Are the records kept that must survive a crash?
    durable: bool = False
