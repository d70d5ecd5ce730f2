"""MQTT at a node beside mosquitto, on this machine: messages a second and latency, with unmodified clients.

    python bench/mqtt.py [--messages 20000] [--seconds 3] [--rounds 3] [--only antecede,mosquitto] [--clients paho]
    python bench/mqtt.py --idle 10000

Each broker runs by itself. The node has a directory: messages are in its journal before they are acknowledged, and
every reader is given them in causal order. mosquitto runs with its defaults, except that its queues have no bound, so
that it drops nothing (`max_queued_messages 0`).

Clients are paho-mqtt, publishers in one process and readers in another; or `mosquitto_pub -l` and `mosquitto_sub`, a
process each. Payloads have 128 bytes. *rate*: one publisher, as fast as its library lets it, until every reader has
everything. *latency*: paho, one publisher at 500 messages a second. Beside the clock on the wall stands the processor
time of the broker for one published message: on a machine that others use too, that is what can be compared. Of
several rounds the median is told, and the best rate.

`--idle`: so many sessions with a subscription each, and the broker's memory for one; then a message to one of them.
"""

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho

PAYLOAD_BYTES = 128
LATENCY_PER_S = 500
WITHIN_S = 90.0
TOPIC = "bench/1"


# -- brokers -----------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def broker(name: str) -> Iterator[tuple[int, int]]:
    """Start a broker; its port and process."""
    port = free_port()
    with tempfile.TemporaryDirectory() as base:
        if name == "mosquitto":
            settings = Path(base, "m.conf")
            settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
            command = [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(settings)]
        else:
            command = [sys.executable, "-m", "antecede", "node", "--dir", f"{base}/n0", "--port", str(free_port())]
            command += ["--mqtt-port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(300):
                with socket.socket() as one:
                    if not one.connect_ex(("127.0.0.1", port)):
                        break
                time.sleep(0.1)
            else:
                raise SystemExit(f"{name} does not listen on port {port}")
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(60)


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- paho, in processes of their own -----------------------------------------------------------------------------------


def connected(port: int) -> paho.Client:
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.max_inflight_messages_set(1000)
    up = threading.Event()
    client.on_connect = lambda *_: up.set()
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert up.wait(30)
    return client


def body() -> bytes:
    return time.time_ns().to_bytes(8) + bytes(PAYLOAD_BYTES - 8)


def publish(port: int, qos: int, count: int, paced: bool) -> None:
    client = connected(port)
    begin = time.time()
    for number in range(count):
        last = client.publish(TOPIC, body(), qos)
        if paced:
            time.sleep(max(0.0, begin + (number + 1) / LATENCY_PER_S - time.time()))
    last.wait_for_publish(WITHIN_S)
    client.disconnect()
    client.loop_stop()
    print(json.dumps({"begin": begin}))


def read(port: int, qos: int, count: int, readers: int) -> None:
    ends: list[float] = []
    taken: list[int] = []
    all_there = threading.Event()

    def reader() -> paho.Client:
        client = connected(port)
        found = 0

        def note(_: object, __: object, message: paho.MQTTMessage) -> None:
            nonlocal found
            found += 1
            taken.append(time.time_ns() - int.from_bytes(message.payload[:8]))
            if found == count:
                ends.append(time.time())
                if len(ends) == readers:
                    all_there.set()

        ready = threading.Event()
        client.on_message = note
        client.on_subscribe = lambda *_: ready.set()
        client.subscribe(TOPIC, qos)
        assert ready.wait(30)
        return client

    clients = [reader() for _ in range(readers)]
    print("ready", flush=True)
    all_there.wait(WITHIN_S)
    for client in clients:
        client.disconnect()
        client.loop_stop()
    taken.sort()
    at = [taken[len(taken) * part // 100] / 1e6 for part in (50, 99)] if taken else [0, 0]
    print(json.dumps({"end": max(ends, default=0), "lost": readers * count - len(taken), "latency_ms": at}))


def child(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def with_paho(port: int, qos: int, count: int, readers: int, paced: bool) -> dict[str, Any]:
    reading = child("read", port, qos, count, readers)
    assert reading.stdout is not None
    assert reading.stdout.readline().strip() == "ready"
    writing = child("publish", port, qos, count, int(paced))
    told = json.loads(writing.communicate()[0])
    found = json.loads(reading.communicate()[0])
    return {**found, "seconds": found["end"] - told["begin"]}


# -- mosquitto's tools -------------------------------------------------------------------------------------------------


def with_tools(port: int, qos: int, count: int, readers: int, paced: bool) -> dict[str, Any]:
    words = ["-h", "127.0.0.1", "-p", str(port), "-V", "5", "-q", str(qos), "-t", TOPIC]
    reading = [
        subprocess.Popen(["mosquitto_sub", *words, "-C", str(count)], stdout=subprocess.DEVNULL) for _ in range(readers)
    ]
    time.sleep(1.0)
    lines = (b"." * PAYLOAD_BYTES + b"\n") * count
    begin = time.time()
    subprocess.run(["mosquitto_pub", *words, "-l"], input=lines, check=True, timeout=WITHIN_S)
    lost = 0
    for one in reading:
        try:
            one.wait(max(1.0, begin + WITHIN_S - time.time()))
        except subprocess.TimeoutExpired:
            one.kill()
            lost += 1
    return {"seconds": time.time() - begin, "lost": lost}


# -- idle sessions -----------------------------------------------------------------------------------------------------


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sessions(port: int, numbers: range) -> list[socket.socket]:
    """Connect (version 5, sessions live for an hour) and subscribe, some at a time."""
    found = []
    for first in numbers[::100]:
        some = [ask_for_session(port, number) for number in range(first, min(first + 100, numbers.stop))]
        for number, one in enumerate(some, first):
            await_session(one, number)
        found += some
    return found


def ask_for_session(port: int, number: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), timeout=30)
    name, topic = b"idle%d" % number, b"idle/%d" % number
    connect = b"\0\4MQTT\5\2\0\0\5\x11\0\0\x0e\x10" + len(name).to_bytes(2) + name
    subscribe = b"\0\1\0" + len(topic).to_bytes(2) + topic + b"\1"
    one.sendall(bytes((0x10, len(connect))) + connect + bytes((0x82, len(subscribe))) + subscribe)
    return one


def await_session(one: socket.socket, number: int) -> None:
    found = b""
    while b"\x90\x04\0\1\0\1" not in found:
        data = one.recv(4096)
        if not data:
            raise SystemExit(f"the broker refused session {number}; its log says why (ulimit -n, perhaps)")
        found += data


def idle(names: list[str], count: int) -> None:
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 400:
        raise SystemExit(f"{count} sessions need {count + 400} open files in each process; ulimit -n allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, count + 400), hard))
    print("| broker | sessions | memory of a session, connected, kB | the same without a connection, kB | to one, ms |")
    print("|---" * 5 + "|")
    for name in names:
        with broker(name) as (port, pid):
            for one in sessions(port, range(count, count + 10)):
                one.close()
            before = resident_bytes(pid)
            sockets = sessions(port, range(count))
            connected_kb = (resident_bytes(pid) - before) / count / 1000
            topic = b"idle/0"
            publish = b"\x30" + bytes((len(topic) + 3 + 8,)) + len(topic).to_bytes(2) + topic + b"\0" + bytes(8)
            took = []
            for _ in range(100):
                begin = time.perf_counter()
                sockets[-1].sendall(publish)
                assert sockets[0].recv(100)
                took.append(time.perf_counter() - begin)
            for one in sockets:
                one.close()
            time.sleep(5)
            away_kb = (resident_bytes(pid) - before) / count / 1000
        print(
            f"| {name} | {count:,} | {connected_kb:.1f} | {away_kb:.1f} | {sorted(took)[50] * 1000:.2f} |", flush=True
        )


# -- the table ---------------------------------------------------------------------------------------------------------


def measure(name: str, tool: str, qos: int, readers: int, count: int, paced: bool = False) -> dict[str, Any]:
    with broker(name) as (port, pid):
        before = processor_s(pid)
        found = (with_paho if tool == "paho" else with_tools)(port, qos, count, readers, paced)
        used = processor_s(pid) - before
    return {**found, "rate": count / found["seconds"], "processor_us": used / count * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="antecede,mosquitto")
    parser.add_argument("--clients", default="paho,tools,latency")
    parser.add_argument("--shapes", default="1-1,1-8")
    parser.add_argument("--qos", default="0,1")
    parser.add_argument("--idle", type=int, default=0)
    given = parser.parse_args()
    names = given.only.split(",")
    if "mosquitto" in names and not (shutil.which("mosquitto") or Path("/usr/sbin/mosquitto").exists()):
        raise SystemExit("mosquitto is not installed: tests/system_packages.sh mosquitto mosquitto-clients")
    if given.idle:
        idle(names, given.idle)
        return
    cases = [(shape, int(qos)) for shape in given.shapes.split(",") for qos in given.qos.split(",")]
    load = os.getloadavg()[0]
    print(f"load {load:.1f}, {os.cpu_count()} cores, {given.messages} messages of {PAYLOAD_BYTES} bytes\n")
    for tool in given.clients.split(","):
        paced = tool == "latency"
        print("| clients | shape | QoS | broker |", "p50, ms | p99, ms |" if paced else "messages/s | best |", end="")
        print(" broker's processor time, µs/message | lost |\n" + "|---" * 8 + "|")
        for shape, qos in cases:
            readers = int(shape.split("-")[1])
            for name in names:
                count = int(given.seconds * LATENCY_PER_S) if paced else given.messages // (1 if readers == 1 else 4)
                key = "latency_ms" if paced else "rate"
                rows = [
                    measure(name, "paho" if paced else tool, qos, readers, count, paced) for _ in range(given.rounds)
                ]
                row = sorted(rows, key=lambda one: one[key])[len(rows) // 2]
                figures = [f"{one:.2f}" for one in row["latency_ms"]] if paced else [f"{row['rate']:,.0f}"]
                if not paced:
                    figures += [f"{max(one['rate'] for one in rows):,.0f}"]
                words = [
                    "paho" if paced else tool,
                    shape,
                    qos,
                    name,
                    *figures,
                    f"{row['processor_us']:.0f}",
                    row["lost"],
                ]
                print("|", " | ".join(map(str, words)), "|", flush=True)
        print()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        role, *numbers = sys.argv[2:]
        port, qos, count, last = map(int, numbers)
        read(port, qos, count, last) if role == "read" else publish(port, qos, count, bool(last))
    else:
        main()
