"""What is wanted ahead of what is used."""

import random

from zarrfuse.stores.remote.ahead import Streams


def wanted(streams: Streams, positions: list[int], stop: int = 1000) -> list[range]:
    return [streams.used(position, position, stop) for position in positions]


def test_what_is_read_in_order_is_wanted_ahead_in_growing_windows():
    streams = Streams(4, 16, 8)
    asked = [part for part in wanted(streams, list(range(100))) if part]
    together = [position for part in asked for position in part]
    assert together == list(range(together[0], together[-1] + 1))
    assert together[-1] >= 100
    assert max(map(len, asked)) <= 16
    assert len(asked[0]) <= 2


def test_nothing_is_wanted_behind_the_end():
    streams = Streams(4, 16, 8)
    together = {at for part in wanted(streams, list(range(20)), stop=20) for at in part}
    assert max(together) == 19


def test_jumps_want_nothing():
    chance = random.Random(1)
    positions = chance.sample(range(0, 100_000, 100), 500)
    assert not any(wanted(Streams(4, 16, 8), positions, stop=100_000))


def test_nearly_in_order_is_in_order():
    chance = random.Random(2)
    positions = sorted(range(200), key=lambda position: position + chance.uniform(0, 6))
    streams = Streams(4, 16, 8)
    ahead: set[int] = set()
    late = 0
    for position in positions:
        late += position not in ahead
        ahead.update(streams.used(position, position, 200))
    assert late < 20


def test_several_programs_are_followed_at_once():
    streams = Streams(4, 16, 8)
    ahead: set[int] = set()
    for step in range(50):
        for begin in (0, 1000, 2000, 3000):
            ahead.update(streams.used(begin + step, begin + step, 10_000))
    assert all({begin + 40, begin + 50} <= ahead for begin in (0, 1000, 2000, 3000))


def test_a_jump_is_told():
    streams = Streams(4, 16, 8)
    streams.used(500, 500, 1000)
    assert not streams.is_new(501)
    assert streams.is_new(700)
