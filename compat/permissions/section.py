"""The section `permissions` of the compat run."""

from collections import Counter
from collections.abc import Sequence

from compat.checks import CheckError, check
from compat.differential.plain import differences
from compat.permissions.known import reason
from compat.permissions.scenarios import Scenario, scenarios
from compat.permissions.side import Side, password
from compat.secured_kafka import both
from testkit.process import BrokerProcess

SHOWN = 400


@check("permissions")
def every_API_with_and_without_rights(_: BrokerProcess) -> str:  # noqa: N802 their name
    """Ottla's replies beside Kafka's."""
    asked = scenarios()
    with both({each.user: password(each.user) for each in asked}) as (broker, *addresses):
        ottla, kafka = (
            Side(name, *where) for name, where in zip(("Ottla", "Kafka"), addresses, strict=True)
        )
        for side in (ottla, kafka):
            side.grant(asked)
            side.find_coordinators()
            side.create_topics(asked)
        found, explained = _compare(asked, ottla, kafka)
        for side in (ottla, kafka):
            side.close()
        if tracebacks := broker.tracebacks():
            found.insert(0, f"a traceback in the broker's log:\n{tracebacks[0]}")
    if found:
        raise CheckError(f"{len(found)} differences\n" + "\n".join(found[:SHOWN]))
    return f"{len(asked):,} requests, {sum(explained.values())} known differences"


def _compare(asked: Sequence[Scenario], ottla: Side, kafka: Side) -> tuple[list[str], Counter[str]]:
    found: list[str] = []
    explained: Counter[str] = Counter()
    for scenario in asked:
        ours, theirs = (side.ask(scenario, side.prepare(scenario)) for side in (ottla, kafka))
        for path, our, their in differences(ours, theirs):
            why = reason(scenario.key, path)
            if why is not None:
                explained[why] += 1
            else:
                found.append(f"{scenario}\n  {path or 'reply'}: Ottla {our!r}, Kafka {their!r}")
    return found, explained
