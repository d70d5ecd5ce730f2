"""How brokers and subscribers go about it: what options come down to (`options`)."""

import msgspec


class GossipConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How brokers and subscribers go about it. Counts are rounds, unless they say otherwise."""

    round_us: int
    #: Brokers a message is pushed to in each round while it is young.
    fanout: int = 3
    #: Places of a view, for each group.
    view: int = 8
    young: int
    #: How long a message can be asked for; 0: as long as there is room.
    retain: int
    #: How long something is waited for before it is given up.
    patience: int
    #: After how many rounds without news a broker stops its rounds; 0: never.
    rest: int
    #: Every so many rounds notes are compared.
    compare: int = 3
    #: Is what is missing asked for?
    pull: bool = True
    #: Messages a broker has at hand, and messages anybody holds back.
    store_max: int = 65_536
    held_max: int = 65_536
    #: Messages sent in answer to one question.
    burst: int = 256
    #: Is what must survive a crash kept?
    durable: bool = False
