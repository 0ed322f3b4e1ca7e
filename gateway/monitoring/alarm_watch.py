"""The alarms of this gateway, judged once a minute by the rules.

1. An alarm fires once its threshold has been passed in each minute of ``for_minutes``, and ends once it has not been passed for
   ``CLEAR_MINUTES``: a value near the threshold makes no series of alarms.
2. Each set of labels has an alarm of its own. At most ``ALARMS_MAX`` are remembered.
3. What passes its threshold is *pending* at once where somebody asks, and not only from the next judgement on.
4. All is memory: a gateway that starts judges anew, and each gateway judges what it measures itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from gateway.monitoring.alarm_rules import EARLY, RULES, SAMPLED, Rule
from gateway.monitoring.quantities import MINUTE_MS, Window
from gateway.monitoring.samples import take_samples
from gateway.tasks.supervised import run_supervised
from log_format.clock import Clock

CLEAR_MINUTES: Final = 5
WINDOW_MINUTES: Final = 15
"""Minutes of samples that are kept: the longest span of a rule."""
LAG_AGE_MS_MAX: Final = 5 * MINUTE_MS
"""Age of the lag of groups that is good enough. A look costs requests to the store, so one serves the history and the alarms."""
ALARMS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm, ``about`` the values of its labels. ``since_ms``: when it began to fire; if it is pending, when its threshold was
    passed first."""

    rule: Rule
    about: tuple[str, ...]
    since_ms: int
    value: float

    @property
    def said(self) -> str:
        """What a person is told."""
        return self.rule.said.format(about="/".join(self.about), value=self.value)


Tell = Callable[[Sequence[Alarm], int], Awaitable[None]]


@dataclass(slots=True)
class _Watched:
    passed_since_ms: int
    last_passed_ms: int
    value: float
    firing_since_ms: int | None = None


class AlarmWatch:
    """Judges the rules. ``measure`` brings the lags of groups and journals up to date; ``tell`` is given the alarms that fire and
    the time in milliseconds after each judgement. Used on the event loop only."""

    def __init__(
        self,
        registry: CollectorRegistry,
        clock: Clock,
        measure: Callable[[], Awaitable[None]],
        tell: Tell | None = None,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._measure = measure
        self._tell = tell
        self._samples = deque([take_samples(registry, SAMPLED, clock.now_ms())], maxlen=WINDOW_MINUTES + 1)
        self._watched: dict[tuple[str, tuple[str, ...]], _Watched] = {}
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Judge once a minute from now on."""
        self._running = asyncio.create_task(run_supervised(self._round, "the alarms"))

    async def stop(self) -> None:
        """Judge no more. Idempotent."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait((running,))

    def firing(self) -> Sequence[Alarm]:
        """Return the alarms that fire, in the order of the rules."""
        return self._alarms(lambda watched: watched.firing_since_ms)

    def pending(self) -> Sequence[Alarm]:
        """Return the alarms whose thresholds are passed, but not for long enough to fire: those of the last judgement, and those
        that are passed now."""
        judged = self._alarms(lambda watched: watched.passed_since_ms if watched.firing_since_ms is None else None)
        window = Window([*self._samples, take_samples(self._registry, SAMPLED, self._clock.now_ms())])
        passed: dict[tuple[str, tuple[str, ...]], Alarm] = {}
        for rule in (*RULES, *EARLY):
            for about, value in _passed(rule, window):
                if (key := (rule.name, about)) not in self._watched and len(self._watched) + len(passed) < ALARMS_MAX:
                    passed.setdefault(key, Alarm(rule=rule, about=about, since_ms=window.now.at_ms, value=value))
        order = {rule.name: number for number, rule in enumerate(RULES)}
        return sorted((*judged, *passed.values()), key=lambda one: order[one.rule.name])

    def _alarms(self, since: Callable[[_Watched], int | None]) -> Sequence[Alarm]:
        return [
            Alarm(rule=rule, about=about, since_ms=since_ms, value=watched.value)
            for rule in RULES
            for (name, about), watched in sorted(self._watched.items())
            if name == rule.name and (since_ms := since(watched)) is not None
        ]

    async def minute(self) -> None:
        """Measure, judge, and tell. Raises nothing."""
        await self._measure()
        self.judge()
        if self._tell is not None:
            await self._tell(self.firing(), self._clock.now_ms())

    def judge(self) -> None:
        """Take the samples of a minute, and judge all rules by them."""
        self._samples.append(take_samples(self._registry, SAMPLED, self._clock.now_ms()))
        window = Window(self._samples)
        for rule in RULES:
            for about, value in _passed(rule, window):
                self._pass(rule, about, value, window.now.at_ms)
        cleared_ms = window.now.at_ms - CLEAR_MINUTES * MINUTE_MS
        for key, watched in list(self._watched.items()):
            is_over = watched.last_passed_ms <= cleared_ms
            is_broken = watched.firing_since_ms is None and watched.last_passed_ms < window.now.at_ms
            if is_over or is_broken:
                del self._watched[key]

    def _pass(self, rule: Rule, about: tuple[str, ...], value: float, now_ms: int) -> None:
        key = (rule.name, about)
        watched = self._watched.get(key)
        if watched is None:
            if len(self._watched) >= ALARMS_MAX:
                return
            watched = self._watched[key] = _Watched(now_ms, now_ms, value)
        watched.last_passed_ms, watched.value = now_ms, value
        if watched.firing_since_ms is None and now_ms - watched.passed_since_ms >= rule.for_minutes * MINUTE_MS:
            watched.firing_since_ms = now_ms

    async def _round(self) -> None:
        await asyncio.sleep(MINUTE_MS / 1000)
        await self.minute()


def _passed(rule: Rule, window: Window) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the labels and values that pass a threshold of the rule."""
    for threshold in rule.thresholds:
        for about, value in threshold.quantity.measure(window).items():
            if value > threshold.above:
                yield about, value
