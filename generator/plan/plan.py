"""All numbers of one environment together, for the forms in which they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

from generator.catalog import Quota, prices
from generator.plan.cost import Cost, cost
from generator.plan.estimate import Estimate, estimate
from generator.plan.fit import Fit, fit
from generator.plan.memory import Memory, gpu_memory, training_config
from generator.plan.network import Network, network
from generator.plan.quota import Use, usage
from generator.resolve import Resolved
from training.config import Config

OLD_DAYS = 90
"""A table of prices is called old after so many days."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One environment's plan. What is not estimated is None or empty, and `not_estimated` says why."""

    resolved: Resolved
    config: Config | None
    not_estimated: str
    fit: tuple[Fit, ...]
    memory: tuple[tuple[str, Memory], ...]
    network: Network | None
    estimate: Estimate | None
    cost: Cost
    quota: dict[Quota, list[Use]]
    prices_as_of: date
    """The oldest of the price tables that count here."""
    prices_age_days: int

    @property
    def name(self) -> str:
        return self.resolved.environment.name

    @property
    def usd_per_day(self) -> float:
        return 24 * self.cost.usd_per_hour

    @property
    def usd_per_run(self) -> float | None:
        """All steps of the training, while all nodes run."""
        return None if self.estimate is None else self._usd(self.estimate.steps * self.estimate.step_seconds)

    @property
    def usd_per_run_in_turn(self) -> float | None:
        """The same without overlap of network and computation."""
        return None if self.estimate is None else self._usd(self.estimate.steps * self.estimate.step_seconds_in_turn)

    @property
    def usd_per_million_tokens(self) -> float | None:
        return None if self.estimate is None else self._usd(1e6 / self.estimate.tokens_per_second)

    @property
    def usd_per_million_tokens_in_turn(self) -> float | None:
        """The same without overlap of network and computation."""
        one = self.estimate
        return None if one is None else self._usd(1e6 * one.step_seconds_in_turn / one.tokens)

    def _usd(self, seconds: float) -> float | None:
        """None where the nodes are paid for by another environment."""
        return self.cost.usd_per_hour * seconds / 3600 if self.cost.components else None

    @property
    def hints(self) -> tuple[str, ...]:
        """What a reader should do something about."""
        found = []
        if self.prices_age_days > OLD_DAYS and self.cost.usd_per_hour:
            found.append(
                f"prices are of {self.prices_as_of}, {self.prices_age_days} days ago: hold them to AWS's price page"
            )
        if self.estimate is not None and self.estimate.gpu.confidence == "low":
            found.append(f"sources disagree on the peak of {self.estimate.gpu.model}: the estimate may be far off")
        found += [f"the pod of `{f.name}` does not fit its node" for f in self.fit if f.fits is False]
        found += [f"the training does not fit the GPUs of `{name}`" for name, m in self.memory if m.share > 1]
        return tuple(found)


def plan(resolved: Resolved, today: date | None = None) -> Plan:
    """Work out one environment's plan as it is on `today` (default: now, in UTC)."""
    day = today or datetime.now(UTC).date()
    config, reason = _config(resolved)
    traffic = network(config, resolved) if config is not None else None
    priced = min(date.fromisoformat(prices()[item].as_of) for item in _tables(resolved))
    speed = estimate(config, resolved, traffic) if config is not None and traffic is not None else None
    if config is not None and speed is None:
        reason = "the peak of a GPU is not known"
    return Plan(
        resolved=resolved,
        config=config,
        not_estimated=reason,
        fit=fit(resolved),
        memory=tuple(gpu_memory(resolved)) if config is not None else (),
        network=traffic,
        estimate=speed,
        cost=cost(resolved, day),
        quota=usage(resolved) if resolved.environment.has_pods else {},
        prices_as_of=priced,
        prices_age_days=(day - priced).days,
    )


def _tables(resolved: Resolved) -> set[str]:
    """The price tables that this environment's sum stands on."""
    kinds = {group.capacity.kind for group in resolved.groups}
    return {"capacity_blocks" if kind == "capacityBlock" else "instances" for kind in kinds} or {"instances"}


def _config(resolved: Resolved) -> tuple[Config | None, str]:
    if not all(group.gpus and group.type.gpus for group in resolved.groups):
        return None, "its nodes have no GPU" if not resolved.gpus else "some of its nodes have no GPU"
    if resolved.environment.mode == "cluster":
        return None, "mode is `cluster`, so what it trains is not known; --preset NAME says it"
    if not resolved.environment.training.bundled:
        return None, "it runs code of its own, whose needs are not known; --preset NAME plans the bundled training"
    config = training_config(resolved)
    if config is None:
        return None, "the training's settings do not fit these nodes; `validate` says why"
    if config.parallel.device == "cpu":
        return None, "the training computes on CPUs (`device: cpu`)"
    return config, ""
