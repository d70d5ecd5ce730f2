"""Payments and receipts in two Kafka topics: a receipt never arrives before its payment, whatever the partitions.

    python examples/accounts_over_kafka.py kafka://127.0.0.1:9092

The topics `payments` and `receipts` must exist.
"""

import asyncio
import sys

import antecede

ACCOUNTS = ("ann", "bob", "cleo")


async def confirm(url: str, start: str) -> None:
    """The bank: it writes a receipt for every payment."""
    async with antecede.connect(url, name="bank") as bus, bus.subscribe("payments/#", since=start) as payments:
        for _ in ACCOUNTS:
            payment = await anext(payments)
            account = payment.topic.partition("/")[2]
            await bus.publish(f"receipts/{account}", b"received " + payment.payload)


async def main(server: str) -> None:
    url = f"{server}?topics=payments,receipts"
    async with antecede.connect(url, name="shop") as shop:
        start = await shop.cut()  # over all partitions: what an earlier run left is not read again
        confirming = asyncio.create_task(confirm(url, start))
        async with shop.subscribe("#", since=start) as feed:
            for account in ACCOUNTS:  # the account is the key, and decides the partition
                await shop.publish(f"payments/{account}", b"10 euros")
            for _ in range(2 * len(ACCOUNTS)):
                message = await anext(feed)
                print(f"{message.topic}: {message.payload.decode()}")
        await confirming


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "kafka://127.0.0.1:9092"))
