"""At least once: process first, commit afterwards. A crash may repeat an order; none is lost.

python examples/delivery/at_least_once.py --crash
"""

from confluent_kafka import Consumer
from stage import Stage, read, run


def work(stage: Stage) -> None:
    """Process the orders; what a crash interrupts is tried again."""
    consumer = Consumer(stage.consumer_settings)
    consumer.subscribe([stage.orders])
    for message in read(consumer):
        stage.may_crash("before-processing", [message])
        stage.process(message)
        stage.may_crash("after-processing", [message])
        consumer.commit(message=message, asynchronous=False)
        stage.may_crash("after-commit", [message])
    consumer.close()


if __name__ == "__main__":
    run(work, ["after-processing", "before-processing", "after-commit"])
