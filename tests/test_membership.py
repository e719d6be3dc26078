"""Scores of pooled candidates, on pools whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reconlib.attack import AttackSettings, reconstruct
from reconlib.bilevel import search
from reconlib.bilevel.given import given_networks
from reconlib.bilevel.landscape import minima, slope
from reconlib.bilevel.starts import Parts, mixture, noise, parts
from reconlib.membership import (
    BLIND,
    KNOWS_START,
    Pool,
    agreement,
    areas,
    best_area,
    best_rate,
    chance_area,
    join,
    mixed_starts,
    pool_attack,
    pool_searches,
)
from reconlib.models import MLP


@pytest.fixture(scope="module")
def images() -> Parts:
    return parts("fashion_mnist_mini", per_class=3, classes=3)


def pool(score: list[float], member: list[int], look_alike: list[int], image: list[int]) -> Pool:
    return Pool(
        {"residual": np.array(score)},
        np.array(member, dtype=bool),
        np.array(look_alike, dtype=bool),
        np.array(image),
        np.array(member, dtype=bool),
    )


def test_agreement_by_hand() -> None:
    pattern = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    across = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])  # of product zero with the other: √2 away
    candidates = torch.stack([pattern, 3 * pattern, across, -pattern])[:, None]
    run = torch.tensor([0, 1, 2, 2])
    # The nearest of run 2 to the pattern is `across`; its negative is 2 away.
    half = 2**0.5 / 2
    assert agreement(candidates, run).tolist() == pytest.approx([-half, -half, -(2**0.5), -2.0], abs=1e-6)
    with pytest.raises(ValueError, match="at least two runs"):
        agreement(candidates, torch.zeros(4))


def test_areas_of_a_score_that_knows_and_of_one_that_is_reversed() -> None:
    knows = pool([3, 4, 1, 2, 9], [1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 1, 2, 3, 4])
    assert areas(knows, ["residual"]) == {"residual": 1.0}
    # The fifth candidate is neither: it counts only when members are told from everything.
    assert areas(knows, ["residual"], look_alikes=False)["residual"] == pytest.approx(2 / 3)
    reversed_ = pool([1, 2, 3, 4], [1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3])
    assert areas(reversed_, ["residual"])["residual"] == 0.0
    assert best_area(reversed_, ["residual"]) == 1.0
    found = best_rate(reversed_, ["residual"])
    assert found is not None and found.true_positive_rate == 1.0 and found.false_positive_rate == 0.0


def test_nothing_to_tell_apart() -> None:
    alone = pool([1, 2], [1, 1], [0, 0], [0, 1])
    assert best_area(alone, ["residual"]) == 0.5
    assert best_rate(alone, ["residual"]) is None


def test_join_ranks_within_a_pool_and_keeps_images_apart() -> None:
    small = pool([1, 2], [1, 0], [0, 1], [0, 3])
    large = pool([200, 100], [0, 1], [1, 0], [0, 3])
    both = join([small, large])
    assert both.scores["residual"].tolist() == [0.5, 1.0, 1.0, 0.5]
    assert both.image.tolist() == [0, 3, 4, 7]
    assert areas(both, ["residual"])["residual"] == 0.0


def test_chance_moves_whole_images() -> None:
    """Ten copies of each of two images are two independent facts: by lot they are always told apart."""
    score, image = [1.0] * 10 + [2.0] * 10, [0] * 10 + [1] * 10
    member = [1] * 10 + [0] * 10
    copies = pool(score, member, [1 - m for m in member], image)
    assert chance_area(copies, ["residual"], draws=20) == 1.0
    generator = np.random.default_rng(0)
    many = pool(generator.normal(size=400).tolist(), [1, 0] * 200, [0, 1] * 200, list(range(400)))
    assert chance_area(many, ["residual"], draws=50) < 0.56


def test_mixed_starts(images: Parts) -> None:
    starts = mixed_starts(images, 1.0, 1 / 3, seed=1)
    true = (starts == images.x).flatten(1).all(1)
    other = (starts == images.other).flatten(1).all(1)
    assert true.sum() == 3 and other.sum() == 6
    assert not torch.equal(starts, mixed_starts(images, 1.0, 1 / 3, seed=2))
    assert not torch.equal(starts, mixed_starts(images, 0.9, 1 / 3, seed=1))


def test_pool_of_searches(images: Parts) -> None:
    given = given_networks(images, [0], 0.1)["affine"]
    starts = [mixed_starts(images, 1.0, share, seed=k) for k, share in enumerate((1 / 3, 2 / 3))]
    ends = [search("kkt", given.training, given.theta, start, steps=1) for start in starts]
    pooled = pool_searches(ends, images)
    assert set(pooled.scores) == {*BLIND, *KNOWS_START}
    assert all(score.shape == (18,) for score in pooled.scores.values())
    assert not (pooled.member & pooled.look_alike).any()
    assert pooled.began.sum() == 9
    assert pooled.member.sum() >= 6 and pooled.look_alike.sum() >= 6
    assert len(np.unique(pooled.scores["residual"])) == 2


def test_pool_of_an_attack(images: Parts) -> None:
    settings = AttackSettings(candidates=6, steps=2, restarts=2, rank=None)
    found = reconstruct(MLP((1, 28, 28), (8,)), settings, progress=False)
    found.candidates[0] = images.x[4].float()
    found.candidates[1] = images.other[5].float()
    pooled = pool_attack(found, images.x.float(), images.other.float(), images.mean)
    assert pooled.member[0] and pooled.image[0] == 4
    assert pooled.look_alike[1] and pooled.image[1] == 9 + 5
    assert set(pooled.scores) == set(BLIND)


def test_given_networks_hold_what_their_size_allows(images: Parts) -> None:
    networks = given_networks(images, [0, 4], 0.1)
    assert list(networks) == ["affine", "4 hidden units"]
    assert networks["affine"].equations_per_unknown == pytest.approx(3 * 785 / (9 * 784))


def test_minima_are_many_from_noise_and_one_beside_the_truth(images: Parts) -> None:
    given = given_networks(images, [0], 0.1)["affine"]
    random = [noise(images, k) for k in range(2)]

    def counted(starts: list[torch.Tensor]) -> dict[str, int]:
        ends = [search("bilevel", given.training, given.theta, start, steps=40) for start in starts]
        return minima(ends, images).to_dict()

    many = counted(random)
    assert many["starts"] == many["distinct"] == many["converged"] == many["distinct_converged"] == 2
    assert many["members"] == 0 and many["images"] == 18
    beside = counted([mixture(images.x, n, 0.99) for n in random])
    assert beside["distinct"] == 1 and beside["members"] == 18


def test_slope() -> None:
    assert slope([0, 0.5, 1], [1, 2, 3]) == pytest.approx(2.0)


def test_parts_of_another_offset_share_nothing(images: Parts) -> None:
    later = parts("fashion_mnist_mini", per_class=3, classes=3, offset=9)
    both = torch.cat([images.x + images.mean, later.x + later.mean]).flatten(1)
    assert torch.pdist(both).min() > 0.1
