"""How much of what can be tried is tried: a sample, or everything with `pytest --thorough`.

The sample is drawn by a seed that the header of the report shows; `--sample-seed` gives it again. What
is drawn for a test depends on the seed and the test's name alone, so it can be run again by itself.

Some tests try less. Only `packaging/test_bare_debian.py` and the run of the benchmark are left out.

- `examples(200)`: how many examples Hypothesis makes, for `@settings(max_examples=...)`.
- The fixture `sample` draws in a test: `sample.count(125, default=25)`, `sample.steps(400, every=3)`.
"""

import random

import pytest
from hypothesis import settings

DEFAULT, THOROUGH = "default", "thorough"
FEWER, LEAST = 5, 20
"""Of the examples of the thorough profile one fifth is made by default, but at least 20."""


def is_thorough() -> bool:
    """Whether everything is tried."""
    return settings.get_current_profile_name() == THOROUGH


def examples(thorough: int) -> int:
    """How many examples Hypothesis makes where the thorough profile makes so many."""
    return thorough if is_thorough() else min(thorough, max(LEAST, thorough // FEWER))


class Sample:
    """What one test tries. `chance` is its source of random numbers."""

    def __init__(self, seed: str, *, thorough: bool) -> None:
        self.chance = random.Random(seed)
        self._thorough = thorough

    def count(self, everything: int, *, default: int) -> int:
        """How often to do what is done at random anyway."""
        return everything if self._thorough else default

    def steps(self, end: int, *, every: int) -> range:
        """The numbers from 0 to `end`, all or every so many of them, from a random one on."""
        return range(end) if self._thorough else range(self.chance.randrange(every), end, every)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sampling")
    group.addoption("--thorough", action="store_true", help="try everything, not a sample")
    group.addoption("--sample-seed", type=int, help="the seed by which the sample is drawn")


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(DEFAULT, deadline=None, max_examples=100 // FEWER)
    settings.register_profile(THOROUGH, deadline=None, max_examples=100)
    settings.load_profile(THOROUGH if config.option.thorough else DEFAULT)
    if config.option.sample_seed is None:  # the workers of pytest-xdist are given this option
        config.option.sample_seed = random.randrange(1 << 32)


def pytest_report_header(config: pytest.Config) -> str:
    tried = "everything is tried" if is_thorough() else "a sample is tried; all with --thorough"
    return f"{tried}; drawn by --sample-seed {config.option.sample_seed}"


@pytest.fixture
def sample(request: pytest.FixtureRequest) -> Sample:
    """What this test tries."""
    seed = f"{request.config.option.sample_seed} {request.node.nodeid}"
    return Sample(seed, thorough=is_thorough())
