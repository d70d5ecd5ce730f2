"""A node of the live system.

A message's way through it: a client's session takes it (`session`), the driver gives it to the protocol and commits
the outcome (`driver`), the hub hands deliveries to the feeds of clients (`hub`, `feed`).

node.py             the node: starts, stops, publishes
config.py           its settings
credentials.py      its certificates, and the tokens it takes
run.py              a node as a process
event_loop.py       the event loop of the process: uvloop's or asyncio's
__main__.py         `python -m antecede.node`
local_cluster.py    several of them on this machine

driver.py           runs the protocol over the transport
driving.py          the driver of a node: counts copies, shows arrivals to the hub
protocol.py         the protocols a node can run
links.py            its port and its transport
timers.py           the protocol's timers
promises.py         promises that publications are safe
hold_times.py       how long messages were held
fault_injection.py  faults on live links, for tests

hub.py              where deliveries meet clients
history.py          deliveries in memory and journal, as feeds read them
feed.py             one subscription of a client
feed_opening.py     opens a feed, or refuses it
feed_start.py       where a feed begins
early.py            messages that feeds are given before their turn
left_out.py         messages that a feed does not give: the reader has them, or they are late
max_age.py          Δ-causal order: which messages are late, and when one waits no longer
session.py          one client
accepted.py         a socket of an HTTP or MQTT client: TLS, deadline, end
owners.py           what feeds and publications need of a session
mqtt/               MQTT clients
publishing.py       the publications of one client
predecessors.py     publications that wait for what they follow
following.py        publications follow messages that this node never delivers
numbering.py        publications that wait for a number
back_pressure.py    when publishers must wait
batch_shares.py     the part of a batch that each client may fill
shares.py           the memory that each client may cost
turns.py            the event loop, shared between clients
bulk/               reading and publishing in bulk
past/               reading from other nodes what this one did not deliver

directory.py        its directory: journal and roster
roster.py           which node has which slot
identity.py         with TLS: entries of the roster are signed, and belong to certificates
joining.py          exchanging rosters, taking a slot
continuity.py       no number is given twice, and one life runs at a time
taking.py           the partitions it takes
membership.py       telling transport and protocol of the other nodes

status.py           what a node tells of itself, and whether it is healthy
retention.py        retention of messages, and compaction of kept records
watch.py            tells the log of missing messages and members that lag
services.py         the servers beside its own port
http/               HTTP: page, health, metrics, topics
origins.py          which web pages may use the node
metrics.py          figures as Prometheus text
tasks.py            supervised tasks
"""
