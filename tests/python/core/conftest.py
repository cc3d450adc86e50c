"""Settings of hypothesis: the same examples in each run, no time limit."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "gnomon",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("gnomon")
