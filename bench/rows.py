"""What the bench finds out: a row for each figure, with its goal and whether it is met. Pure."""

from statistics import median

import msgspec

from bench.stats import ratio


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wanted of a row: bounds on Ottla's multiple of Kafka's figure, or on its own."""

    ratio_at_least: float | None = None
    ratio_at_most: float | None = None
    at_least: float | None = None
    below: float | None = None

    @property
    def is_relative(self) -> bool:
        """Whether the goal needs Kafka's figure."""
        return self.ratio_at_least is not None or self.ratio_at_most is not None

    def met(self, kafka: float, ottla: float) -> bool:
        """Whether the medians reach the goal."""
        times = ratio(ottla, kafka)
        return (
            (self.ratio_at_least is None or times >= self.ratio_at_least)
            and (self.ratio_at_most is None or times <= self.ratio_at_most)
            and (self.at_least is None or ottla >= self.at_least)
            and (self.below is None or ottla < self.below)
        )

    def text(self, unit: str) -> str:
        """The goal as the table shows it."""
        parts = []
        if self.ratio_at_least is not None:
            parts.append(f"≥ {self.ratio_at_least:g} ×")
        if self.ratio_at_most is not None:
            parts.append(f"≤ {self.ratio_at_most:g} ×")
        if self.at_least is not None:
            parts.append(f"≥ {figure(self.at_least, unit)}")
        if self.below is not None:
            parts.append(f"< {figure(self.below, unit)}")
        return ", ".join(parts)


class Row(msgspec.Struct, frozen=True):
    """One figure of one work, measured on both sides: a sample for each round."""

    work: str
    figure: str
    unit: str
    kafka: list[float]
    ottla: list[float]
    goal: Goal = Goal()
    note: str = ""

    @property
    def measured(self) -> bool:
        """Whether both sides have samples; a work that failed has none."""
        return bool(self.kafka and self.ottla)

    @property
    def ratio(self) -> float:
        """Ottla's median as a multiple of Kafka's."""
        return ratio(median(self.ottla), median(self.kafka))

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal == Goal():
            return None
        if not self.ottla or (self.goal.is_relative and not self.kafka):
            return False
        return self.goal.met(median(self.kafka) if self.kafka else 1.0, median(self.ottla))

    def cells(self) -> tuple[str, str, str, str, str]:
        """Kafka, Ottla, ratio, wanted and met, as a person reads them."""
        kafka = figure(median(self.kafka), self.unit) if self.kafka else "–"
        ottla = figure(median(self.ottla), self.unit) if self.ottla else "–"
        times = f"{self.ratio:.2f} ×" if self.measured else "–"
        return kafka, ottla, times, self.goal.text(self.unit), verdict(self.met)


def verdict(met: bool | None) -> str:
    """The last cell of a row."""
    return "" if met is None else "yes" if met else "no"


def figure(value: float, unit: str) -> str:
    """A figure with its unit, and as many digits as it deserves."""
    if unit == "/s":
        return f"{value:,.0f}/s"
    if unit == "x":
        return f"{value:.2f}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"
