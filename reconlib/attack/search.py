"""One descent from one start: schedules, priors, multipliers, and roll-back when it diverges."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reconlib.attack.closed_form import ClosedForm
from reconlib.attack.multipliers import solve_multipliers
from reconlib.attack.optimisers import optimiser_named
from reconlib.attack.priors import range_gradient, variation_gradient
from reconlib.attack.problem import Problem
from reconlib.attack.products import rounding_pays
from reconlib.attack.settings import AttackSettings
from reconlib.attack.starts import start_candidates, start_multipliers

_SNAPSHOT_EVERY = 50
_MOST_HALVINGS = 30
_EXPLOSION = 10.0
_RECORDS = 200


class AttackDiverged(RuntimeError):
    """The loss stays non-finite or grows however small the steps are."""


@dataclass
class SearchState:
    """All that the next step depends on."""

    step: int
    loss: float
    rate_factor: float
    tensors: dict[str, Tensor]
    history: dict[str, list[float]] = field(default_factory=dict)

    def copy(self) -> SearchState:
        return SearchState(
            self.step,
            self.loss,
            self.rate_factor,
            {name: tensor.clone() for name, tensor in self.tensors.items()},
            {name: list(values) for name, values in self.history.items()},
        )


class Search:
    """A descent that can be advanced, copied to a file and continued from there."""

    def __init__(
        self,
        problem: Problem,
        settings: AttackSettings,
        run: int = 0,
        *,
        images: Tensor | None = None,
        resume: SearchState | None = None,
    ):
        self.problem, self.settings, self.run = problem, settings, run
        dtype = getattr(torch, settings.dtype)
        # Seeds of neighbouring runs must not give neighbouring streams.
        generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + run)
        m = problem.candidates
        noise = settings.start_noise if images is not None else 1.0
        u = start_candidates(
            problem.space, m, settings.start_scale, generator, images=images, noise_share=noise,
            dtype=dtype, device=problem.device,
        )  # fmt: skip
        multipliers = start_multipliers(problem.equation, m, problem.columns, generator, dtype)
        self.u, self.multipliers = u, multipliers.to(problem.device)
        rule = optimiser_named(settings.optimiser)
        self.move_u, self.move_multipliers = rule(self.u), rule(self.multipliers)
        self.may_round = settings.dtype == "float32" and rounding_pays(problem.device)
        self.step, self.rate_factor = 0, 1.0
        self.loss = math.inf
        self.history: dict[str, list[float]] = {}
        if resume is not None:
            self._restore(resume)
        self.snapshot = self.state()

    def alpha(self, step: int) -> float:
        """Geometric from the first to the last value of `settings.alpha`, in every cycle."""
        first, last = self.settings.alpha
        return first * (last / first) ** self._progress(step)

    def _progress(self, step: int) -> float:
        """Share of the current cycle that `step` ends."""
        length = self.settings.steps / self.settings.cycles
        return step / length - max(math.ceil(step / length) - 1, 0)

    def advance(
        self,
        report: Callable[[Search], None] | None = None,
        save: Callable[[SearchState], None] | None = None,
    ) -> None:
        """Descend to the last step."""
        settings = self.settings
        while self.step < settings.steps:
            before = self.snapshot
            self._one_step()
            if save is not None and self.snapshot is not before:
                if self.snapshot.step and self.snapshot.step % settings.checkpoint_every == 0:
                    save(self.snapshot)
            if report is not None:
                report(self)

    def trial(self, steps: int) -> None:
        """Some steps for a measurement, whatever the end of the schedule."""
        for _ in range(steps):
            self._one_step()

    def finish(self) -> tuple[Tensor, Tensor, float]:
        """Candidates in pixels (m, d), multipliers (m, k), and the relative residual, at the last α."""
        alpha = self.alpha(self.step)
        if self.settings.multipliers == "nnls":
            self._solve(alpha)
        if isinstance(self.problem.stationarity, ClosedForm):
            self.problem.stationarity.products.rounded = False
        loss, _, _ = self.problem.stationarity(self.u, self.multipliers, self.problem.labels, alpha)
        return (
            self.problem.space.to_pixels(self.u),
            self.multipliers,
            float(loss) / self.problem.stationarity.target,
        )

    def state(self) -> SearchState:
        tensors = {"u": self.u, "multipliers": self.multipliers}
        for owner, rule in (("u", self.move_u), ("multipliers", self.move_multipliers)):
            tensors.update({f"{owner}.{name}": tensor for name, tensor in rule.state.items()})
        return SearchState(self.step, self.loss, self.rate_factor, tensors, self.history).copy()

    def _restore(self, state: SearchState) -> None:
        state = state.copy()
        self.step, self.loss, self.history = state.step, state.loss, state.history
        self.rate_factor = state.rate_factor
        self.u.copy_(state.tensors["u"])
        self.multipliers.copy_(state.tensors["multipliers"])
        for owner, rule in (("u", self.move_u), ("multipliers", self.move_multipliers)):
            for name, tensor in rule.state.items():
                tensor.copy_(state.tensors[f"{owner}.{name}"])

    def _one_step(self) -> None:
        """One step forward, or back to the last snapshot with half the rate."""
        settings, problem = self.settings, self.problem
        step = self.step + 1
        alpha = self.alpha(step)
        if settings.multipliers == "nnls" and self.step % settings.solve_every == 0:
            self._solve(alpha)
        if isinstance(problem.stationarity, ClosedForm):
            problem.stationarity.products.rounded = (
                self.may_round and step <= settings.rounded_share * settings.steps
            )
        loss, gradient, gradient_l = problem.stationarity(self.u, self.multipliers, problem.labels, alpha)
        value = float(loss)
        if not math.isfinite(value) or value > _EXPLOSION * max(
            problem.stationarity.target, self.snapshot.loss if math.isfinite(self.snapshot.loss) else value
        ):
            self._roll_back(value)
            return
        self.loss = value
        if self.step % _SNAPSHOT_EVERY == 0 or self.step % settings.checkpoint_every == 0:
            self.snapshot = self.state()  # before the move: a point whose loss is known to be sound
        self.step = step
        if step % settings.prior_every == 0:
            self._add_prior(gradient, settings.prior_every)
        if problem.equation.positive and settings.multiplier_penalty:
            below = (settings.multiplier_min - self.multipliers).clamp_min_(0)
            gradient_l = gradient_l - 2 * settings.multiplier_penalty * below
        turn = math.pi * self._progress(step)
        decay = 0.5 * (1 + math.cos(turn)) if settings.schedule == "cosine" else 1.0
        factor = decay * self.rate_factor
        self.move_u.step(self.u, gradient, settings.rate * factor)
        if settings.multipliers == "gradient":
            self.move_multipliers.step(self.multipliers, gradient_l, settings.multiplier_rate * factor)
        if step % max(1, settings.steps // _RECORDS) == 0 or step == settings.steps:
            self._record(alpha, settings.rate * factor)

    def _add_prior(self, gradient: Tensor, times: int) -> None:
        settings, space = self.settings, self.problem.space
        if not settings.range_weight and not settings.variation_weight:
            return
        engine = self.problem.stationarity
        products = engine.products if isinstance(engine, ClosedForm) else None
        x = space.to_pixels(self.u, products)
        prior = range_gradient(x).mul_(times * settings.range_weight)
        if settings.variation_weight:
            shape = self.problem.report.input_shape
            prior.add_(variation_gradient(x, shape), alpha=times * settings.variation_weight)
        gradient.add_(space.pull_back(prior, products))

    def _solve(self, alpha: float) -> None:
        if self.problem.columns != 1:
            raise ValueError(
                "multipliers='nnls' solves for one multiplier per candidate, and this equation has one per "
                "output: use multipliers='gradient'"
            )
        least = self.settings.multiplier_min if self.problem.equation.positive else None
        products, along = self.problem.stationarity.gram(self.u, self.problem.labels, alpha)
        m = self.problem.candidates
        # The search's multipliers carry the papers' 1/m.
        solved = solve_multipliers(products / m**2, along / m, least=least)
        self.multipliers.copy_(solved[:, None])

    def _roll_back(self, loss: float) -> None:
        factor = self.rate_factor / 2
        if factor < 0.5**_MOST_HALVINGS:
            raise AttackDiverged(
                f"the stationarity loss reached {loss} at step {self.step} and halving the rates "
                f"{_MOST_HALVINGS} times did not help: start with smaller start_scale, or a smaller alpha"
            )
        self._restore(self.snapshot)
        self.rate_factor = self.snapshot.rate_factor = factor

    def _record(self, alpha: float, rate: float) -> None:
        values = {
            "run": float(self.run),
            "step": float(self.step),
            "residual": self.loss / self.problem.stationarity.target,
            "alpha": alpha,
            "rate": rate,
            "multiplier": float(self.multipliers.median()),
        }
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)
