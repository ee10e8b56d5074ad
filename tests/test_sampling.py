"""What a test tries of much is drawn by the seed alone, and all of it when that is asked for."""

from sampling import Sample


def sample(seed: int) -> Sample:
    return Sample(f"{seed} a test", thorough=False)


EVERYTHING = Sample("1 a test", thorough=True)


def test_the_same_seed_draws_the_same() -> None:
    for seed in range(10):
        assert sample(seed).steps(30, every=3) == sample(seed).steps(30, every=3)
        assert sample(seed).chance.random() == sample(seed).chance.random()


def test_the_steps_of_a_sample_are_so_many_apart_and_each_is_drawn_by_some_seed() -> None:
    drawn = [list(sample(seed).steps(30, every=3)) for seed in range(50)]
    assert {len(steps) for steps in drawn} == {10}
    assert {step for steps in drawn for step in steps} == set(range(30))
    assert list(EVERYTHING.steps(30, every=3)) == list(range(30))


def test_a_sample_does_less_of_what_is_random() -> None:
    assert sample(1).count(125, default=25) == 25
    assert EVERYTHING.count(125, default=25) == 125
