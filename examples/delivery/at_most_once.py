"""At most once: commit first, process afterwards. A crash may lose an order; none comes twice.

python examples/delivery/at_most_once.py --crash
"""

from confluent_kafka import Consumer
from stage import Stage, read, run


def work(stage: Stage) -> None:
    """Process the orders; what a crash interrupts is never tried again."""
    consumer = Consumer(stage.consumer_settings)
    consumer.subscribe([stage.orders])
    for message in read(consumer):
        stage.may_crash("before-commit", [message])
        consumer.commit(message=message, asynchronous=False)
        stage.may_crash("after-commit", [message])
        stage.process(message)
        stage.may_crash("after-processing", [message])
    consumer.close()


if __name__ == "__main__":
    run(work, ["after-commit", "before-commit", "after-processing"])
