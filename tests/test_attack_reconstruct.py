"""reconstruct(): determinism, pooling, priors, roll-back, resuming after SIGKILL, and what it may import."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from reconlib.attack import DEFAULTS, AttackDiverged, AttackSettings, default_settings, reconstruct
from reconlib.attack.problem import build_problem
from reconlib.attack.search import Search
from reconlib.models import MLP, ConvNet

SMALL = AttackSettings(candidates=12, steps=60, restarts=2, rank=5, checkpoint_every=20)


def network(outputs: int = 1, seed: int = 0):
    return MLP((3, 4, 4), (20, 16), outputs, first_layer_scale=0.1, seed=seed)


def same(a, b) -> bool:
    return (
        torch.equal(a.candidates, b.candidates)
        and torch.equal(a.multipliers, b.multipliers)
        and torch.equal(a.residual, b.residual)
        and a.history == b.history
    )


def test_result_has_the_promised_shapes() -> None:
    found = reconstruct(network(), SMALL, progress=False)
    assert found.candidates.shape == (24, 3, 4, 4) and found.candidates.dtype == torch.float32
    assert found.multipliers.shape == (24,)
    assert found.labels.tolist() == [0, 1] * 12
    assert found.run.tolist() == [0] * 12 + [1] * 12
    assert found.residual.shape == (2,) and bool((found.residual < 1).all())
    assert {"step", "residual", "alpha", "rate", "run"} <= found.history.keys()
    assert found.settings == SMALL
    assert not torch.equal(found.candidates[:12], found.candidates[12:])


@pytest.mark.parametrize(
    "model,equation",
    [
        (network(4), "multiclass"),
        (network(3), "general"),
        (ConvNet((1, 6, 6), 3, 4, (10,), 1), "binary"),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.LeakyReLU(), nn.Linear(8, 1, bias=False)),
            "binary",
        ),
    ],
    ids=["multiclass", "general", "conv", "module"],
)
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_every_equation_path_and_optimiser_descends(model, equation: str, optimiser: str) -> None:
    settings = replace(SMALL, equation=equation, optimiser=optimiser, rate=0.02, variation_weight=1e-3)
    found = reconstruct(model, settings, progress=False)
    residual = [r for r, run in zip(found.history["residual"], found.history["run"], strict=True) if run == 0]
    assert float(found.residual[0]) < residual[0]
    assert bool(torch.isfinite(found.candidates).all())
    assert (found.labels is None) == (equation == "general")
    if equation == "general":
        assert found.multipliers.shape == (24, 3)


def test_same_seed_same_result_and_another_seed_another() -> None:
    first, second = (reconstruct(network(), SMALL, progress=False) for _ in range(2))
    assert same(first, second)
    assert not torch.equal(
        first.candidates, reconstruct(network(), replace(SMALL, seed=1), progress=False).candidates
    )


def test_chunks_change_nothing_but_rounding() -> None:
    settings = replace(SMALL, dtype="float64", steps=20)
    whole = reconstruct(network(), settings, progress=False)
    parts = reconstruct(network(), replace(settings, chunk=5), progress=False)
    assert torch.allclose(whole.candidates, parts.candidates, atol=1e-6)


def test_scaling_all_layers_changes_only_the_multipliers() -> None:
    model, scaled = network(), network()
    with torch.no_grad():
        for p in scaled.parameters():
            p.mul_(1.7)
    settings = replace(SMALL, dtype="float64", steps=20)
    a, b = (reconstruct(m, settings, progress=False) for m in (model, scaled))
    assert torch.allclose(a.candidates, b.candidates, atol=1e-5)
    assert torch.allclose(a.multipliers * 1.7 ** (2 - 3), b.multipliers, rtol=1e-4)


def test_rounding_ends_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = MLP((48,), (40, 40), 1, first_layer_scale=0.1)
    settings = replace(SMALL, candidates=40, rank=40, steps=40, restarts=1)
    monkeypatch.setattr("reconlib.attack.search.rounding_pays", lambda device: True)
    half, all_, none = (
        reconstruct(wide, replace(settings, rounded_share=share), progress=False) for share in (0.5, 1.0, 0.0)
    )
    assert half.history["residual"][:20] == all_.history["residual"][:20]
    assert half.history["residual"][21:] != all_.history["residual"][21:]
    assert none.history["residual"][0] != half.history["residual"][0]


def test_range_prior_keeps_pixels_in_range() -> None:
    # The equation hardly counts here, so that the prior alone moves the candidates.
    loose = replace(SMALL, start_scale=2.0, steps=300, rate=0.2, rank=None, layer_weights=(1e-9,) * 3)
    free = reconstruct(network(), replace(loose, range_weight=0.0), progress=False).candidates.abs().max()
    held = reconstruct(network(), loose, progress=False).candidates.abs().max()
    assert float(free) > 2 and float(held) < 1.1


def test_divergence_is_rolled_back() -> None:
    wild = replace(SMALL, optimiser="sgd", rate=1e6, multiplier_rate=1e6, restarts=1, steps=100)
    found = reconstruct(network(), wild, progress=False)
    assert bool(torch.isfinite(found.candidates).all())
    assert min(found.history["rate"]) < 1e5
    assert float(found.residual) < 10


def test_hopeless_divergence_says_so() -> None:
    with pytest.raises(AttackDiverged, match="start_scale"):
        reconstruct(network(), replace(SMALL, start_scale=1e30), progress=False)


def test_starts_mix_images_and_noise() -> None:
    images, labels = torch.randn(3, 3, 4, 4), torch.tensor([1, 0, 1])
    settings = replace(SMALL, rank=None, candidates=7, start_noise=0.25, dtype="float64")
    problem = build_problem(network(), settings, labels=labels)
    assert problem.labels.tolist() == [1, 0, 1, 1, 0, 1, 1]
    noise = Search(problem, replace(settings, start_noise=1.0), images=images).u
    mixed = Search(problem, settings, images=images).u
    given = images.flatten(1).double()[torch.arange(7) % 3]
    assert torch.allclose(mixed, 0.75 * given + 0.25 * noise)


KILLED = """
import sys, torch
sys.path.insert(0, {root!r})
torch.set_num_threads(1)
from tests.test_attack_reconstruct import LONG, network
from reconlib.attack import reconstruct
reconstruct(network(), LONG, progress=False, checkpoint={path!r})
"""
LONG = replace(SMALL, steps=1500, checkpoint_every=50)


def test_continues_after_sigkill_with_the_same_result(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "attack.safetensors"
    code = KILLED.format(root=str(root), path=str(path))
    process = subprocess.Popen([sys.executable, "-c", code], cwd=root)
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    steps: list[int] = []
    original = Search.__init__

    def noting(self, *args, **kwargs):
        original(self, *args, **kwargs)
        steps.append(self.step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Search, "__init__", noting)
        resumed = reconstruct(network(), LONG, progress=False, checkpoint=path)
    assert steps[0] > 0 or len(steps) == 1, "nothing was resumed"
    assert same(resumed, reconstruct(network(), LONG, progress=False))


def test_a_finished_checkpoint_is_the_result_and_more_restarts_extend_it(tmp_path: Path) -> None:
    path = tmp_path / "attack.safetensors"
    first = reconstruct(network(), SMALL, progress=False, checkpoint=path)
    again = reconstruct(network(), SMALL, progress=False, checkpoint=path)
    assert same(first, again)
    more = reconstruct(network(), replace(SMALL, restarts=3), progress=False, checkpoint=path)
    assert torch.equal(more.candidates[:24], first.candidates) and len(more.candidates) == 36


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "attack.safetensors"
    reconstruct(network(), SMALL, progress=False, checkpoint=path)
    with pytest.raises(ValueError, match="another model or other settings"):
        reconstruct(network(seed=1), SMALL, progress=False, checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="remove it to start anew"):
        reconstruct(network(), SMALL, progress=False, checkpoint=path)


def test_progress_shows_residual_and_rate(capsys: pytest.CaptureFixture[str]) -> None:
    reconstruct(network(), SMALL, progress=True)
    shown = capsys.readouterr().err
    assert "residual=" in shown and "step/s" in shown and "120/120" in shown


def test_the_attack_cannot_reach_the_training_set(root: Path) -> None:
    code = (
        "import pkgutil, importlib, sys, reconlib.attack as a\n"
        "for m in pkgutil.walk_packages(a.__path__, 'reconlib.attack.'): importlib.import_module(m.name)\n"
        "print('\\n'.join(sorted(m for m in sys.modules if m.startswith('reconlib'))))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=root, check=True, capture_output=True, text=True
    ).stdout.split()
    beyond = {name.split(".")[1] for name in loaded if "." in name} - {"attack", "models", "files"}
    assert "reconlib.attack.search" in loaded and not beyond


@pytest.mark.parametrize(
    "change,text",
    [
        ({"steps": 0}, "steps"),
        ({"rank": 0}, "rank"),
        ({"alpha": (0, 1)}, "alpha"),
        ({"layer_weights": (0.0, 0.0)}, "layer_weights"),
        ({"schedule": "linear"}, "cosine, constant"),
        ({"rate": -1}, "rate"),
        ({"start_noise": 2}, "start_noise"),
        ({"rounded_share": 2}, "rounded_share"),
        ({"normalise": 0.0}, "normalise"),
    ],
)
def test_settings_refuse_nonsense(change, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        AttackSettings(**change)


@pytest.mark.parametrize(
    "change,text",
    [
        ({"equation": "ternary"}, "binary, multiclass, cross_entropy, general"),
        ({"optimiser": "lion"}, "sgd, adam"),
        ({"layer_weights": (1.0, 1.0)}, "3 layers"),
        ({"equation": "multiclass"}, "equation='binary'"),
        ({"candidates": None, "rank": None}, "twice the rank"),
    ],
)
def test_settings_that_do_not_fit_the_model(change, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        reconstruct(network(), replace(SMALL, **change), progress=False)


def test_defaults_by_name() -> None:
    assert default_settings("binary") is DEFAULTS["binary"]
    with pytest.raises(ValueError, match="multiclass"):
        default_settings("nothing")
