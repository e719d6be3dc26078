"""Interactive pieces: they hold the right images, need nothing from outside, and stay small."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from reconlib.attack import AttackSettings, reconstruct
from reconlib.boundary import Boundary
from reconlib.data import load_task
from reconlib.film import record_path
from reconlib.interactive import Interactive, film, hover_scatter, slider
from reconlib.matching import judge
from reconlib.models import MLP
from reconlib.playground import fit, multipliers, playground, points_in_the_plane, residual


@pytest.fixture(scope="module")
def task():
    return load_task("fashion_mnist_mini", "even_vs_odd_classes", per_class=6)


@pytest.fixture(scope="module")
def judged(task):
    noise = 0.1 * torch.randn(task.x.shape, generator=torch.Generator().manual_seed(0))
    return judge(task.x + noise * torch.linspace(0, 3, len(task.x)).view(-1, 1, 1, 1), task.x, task.mean)


def pictures(html: str) -> list[np.ndarray]:
    """Every image inside a piece of HTML, in order, (H, W, 3) in 0..255."""
    found = re.findall(r"data:image/\w+;base64,([A-Za-z0-9+/=]+)", html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")) for data in found]


def boundary_of(n: int) -> Boundary:
    return Boundary("binary", torch.linspace(1, 3, n, dtype=torch.float64), 1.0, torch.zeros(n))


def test_slider_shows_the_best_pairs_in_order(task, judged) -> None:
    piece = slider(judged, task.x, task.mean, count=3)
    shown = pictures(piece.html)
    assert len(shown) == 6
    for place, i in enumerate(judged.ranking()[:3].tolist()):
        for image, expected in zip(
            shown[2 * place : 2 * place + 2], ((task.x + task.mean)[i], judged.reconstruction[i]), strict=True
        ):
            np.testing.assert_array_equal(image[:, :, 0], (expected[0].clamp(0, 1) * 255).round().numpy())
    assert f"SSIM {judged.best:.2f}" in piece.html
    by_distance = slider(judged, task.x, task.mean, chosen=[4], by="distance")
    assert len(pictures(by_distance.html)) == 2 and "distance" in by_distance.html


def test_scatter_has_a_point_and_a_pair_for_every_image(task, judged) -> None:
    piece = hover_scatter(judged, task.x, task.mean, boundary_of(len(task.x)))
    titles = re.findall(r"<title>SSIM ([\d.]+), distance ([\d.]+)</title>", piece.html)
    ranked = judged.ranking().tolist()
    distances = torch.linspace(1, 3, len(task.x)).tolist()
    assert titles == [(f"{judged.ssim[i]:.2f}", f"{distances[i]:.3g}") for i in ranked]
    assert piece.html.count('class="good"') == judged.good
    (sheet,) = pictures(piece.html)
    columns = int(re.search(r'data-columns="(\d+)"', piece.html)[1])
    assert sheet.shape[:2] == (28 * -(-len(task.x) // columns), 28 * 2 * columns)
    for place, i in enumerate(ranked):
        top, left = 28 * (place // columns), 56 * (place % columns)
        tile = sheet[top : top + 28, left : left + 56, 0] / 255
        pair = torch.cat([(task.x + task.mean)[i, 0].clamp(0, 1), judged.reconstruction[i, 0]], 1)
        # Compressed, so not to the bit.
        assert np.abs(tile - pair.numpy()).mean() < 0.06


def test_five_hundred_photographs_take_little_room() -> None:
    generator = torch.Generator().manual_seed(0)
    rough = torch.rand(500, 3, 8, 8, generator=generator)
    x = torch.nn.functional.interpolate(rough, scale_factor=4, mode="bicubic").clamp(0, 1) - 0.5
    mean = torch.full((3, 32, 32), 0.5)
    judged = judge(x + 0.05 * torch.randn(x.shape, generator=generator), x, mean)
    piece = hover_scatter(judged, x, mean, boundary_of(500))
    assert len(piece._repr_html_()) < 1_500_000


def test_film_holds_every_frame_beside_its_image(task) -> None:
    frames = torch.stack([torch.full((5, 1, 28, 28), k / 4) for k in range(2)])
    frames = frames + torch.linspace(0, 0.5, 5).view(1, 5, 1, 1, 1)
    piece = film(
        frames, (task.x + task.mean)[:2], [0, 1, 5, 9, 20], {"residual": [1, 0.5, 0.2, 0.1, 0.05]}, stills=3
    )
    strips = [p for p in pictures(piece.html) if p.shape == (28, 5 * 28, 3)]
    assert len(strips) == 2
    for k, strip in enumerate(strips):
        levels = [strip[:, 28 * t + 8 : 28 * t + 20].mean() / 255 for t in range(5)]
        np.testing.assert_allclose(levels, frames[k, :, 0, 0, 0], atol=0.02)
    assert "step 20, residual 0.05" in piece.html and piece.html.count("Candidate at") == 6


def test_pieces_need_nothing_from_outside_and_carry_a_description(task, judged) -> None:
    x, y = points_in_the_plane(4)
    for piece in (
        slider(judged, task.x, task.mean),
        hover_scatter(judged, task.x, task.mean, boundary_of(len(task.x))),
        film(task.x[None, :3] + task.mean, (task.x + task.mean)[:1], [0, 1, 2]),
        playground([fit(x, y, 20, 0.01)], x, y, candidates=8),
    ):
        html = piece._repr_html_()
        assert not re.findall(
            r"(?:https?:)?//[\w.-]+\.[a-z]{2,}", re.sub(r"base64,[A-Za-z0-9+/=]+", "", html)
        )
        assert 'aria-label="' in html and piece.alt in html
        assert "base64" not in repr(piece), "a notebook would store the images twice"
        ids = re.findall(r'\bid="', html)
        assert not ids, "two pieces on one page would share it"


def test_wrong_use_is_explained(task, judged) -> None:
    with pytest.raises(ValueError, match="no images"):
        slider(judged, task.x, task.mean, chosen=[])
    with pytest.raises(ValueError, match="not of one set"):
        hover_scatter(judged, task.x, task.mean, boundary_of(3))
    with pytest.raises(ValueError, match="need 2 steps"):
        film(torch.zeros(1, 2, 1, 4, 4), torch.zeros(1, 1, 4, 4), [0])
    with pytest.raises(ValueError, match="do not fit"):
        film(torch.zeros(1, 2, 1, 4, 4), torch.zeros(2, 1, 4, 4), [0, 1])
    with pytest.raises(ValueError, match="description"):
        Interactive("<p>x</p>", " ")


# --- the path of an attack


def test_a_path_ends_where_the_attack_ends() -> None:
    model = MLP((1, 6, 6), (30,), seed=1, first_layer_scale=0.1)
    settings = AttackSettings(candidates=8, steps=60, restarts=2, rank=None, normalise=None)
    found = reconstruct(model, settings, progress=False)
    for restart in (0, 1):
        path = record_path(model, settings, frames=10, restart=restart)
        torch.testing.assert_close(
            path.candidates[-1], found.candidates[found.run == restart], rtol=0, atol=0
        )
        assert path.steps[0] == 0 and path.steps[-1] == 60 and list(path.steps) == sorted(set(path.steps))
        assert len(path.candidates) == len(path.steps) == len(path.residual)
        assert float(path.candidates[0].std()) == pytest.approx(settings.start_scale, rel=0.2)
    some = record_path(model, settings, frames=4, candidates=torch.tensor([5, 2]))
    torch.testing.assert_close(some.candidates[-1], found.candidates[[5, 2]])
    with pytest.raises(ValueError, match="at least 2"):
        record_path(model, replace(settings, steps=5), frames=1)


# --- the example in the plane


@pytest.mark.parametrize("neurons", [12, 40, 300])
def test_the_equation_of_the_page_is_exact(neurons: int) -> None:
    x, y = points_in_the_plane(8)
    network = fit(x, y, neurons, 0.003)
    objective = lambda v: (network.features(x) @ v - y).square().mean() + 0.0015 * v.square().sum()  # noqa: E731
    v = network.v.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(v), v)
    assert gradient.norm() < 1e-10 * network.v.norm(), "the closed form is the minimum"
    known = multipliers(network, x, y, 0.003)
    assert residual(network, x, known) < 1e-9
    assert residual(network, x + 0.1, known) > 0.05
