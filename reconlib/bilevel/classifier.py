"""The networks of the bilevel problem: affine, or one hidden layer of smooth ReLUs, θ one flat vector."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus


@dataclass(frozen=True)
class Classifier:
    """Φ(x; θ) = W x + b, or W₂ ρ(W₁ x + b₁) + b₂ with ρ(z) = ln(1 + e^(βz))/β, a ReLU without its kink.

    Implicit differentiation needs a second derivative, and minimisers of a decayed ReLU network sit on kinks.
    """

    dimension: int  # of an image
    outputs: int  # 1: logistic loss on labels 0/1; more: cross-entropy
    hidden: int = 0  # 0: affine
    sharpness: float = 10.0  # β

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.outputs < 1 or self.hidden < 0:
            raise ValueError(
                f"a classifier needs a dimension and outputs of at least 1 and hidden of at least 0, not "
                f"{self.dimension}, {self.outputs} and {self.hidden}"
            )
        if not self.sharpness > 0:
            raise ValueError(f"sharpness must be positive, not {self.sharpness}")

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the weight and bias of each layer, in the order in which θ holds them."""
        if not self.hidden:
            return (self.outputs, self.dimension), (self.outputs,)
        return (self.hidden, self.dimension), (self.hidden,), (self.outputs, self.hidden), (self.outputs,)

    @property
    def parameters(self) -> int:
        """The length of θ: as many equations as the weights give."""
        return sum(math.prod(shape) for shape in self.shapes)

    def split(self, theta: Tensor) -> list[Tensor]:
        """θ (p,) as weights and biases."""
        parts = theta.split([math.prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def __call__(self, theta: Tensor, x: Tensor) -> Tensor:
        """Φ of x (n, dimension): (n, outputs)."""
        weight, bias, *later = self.split(theta)
        z = x @ weight.T + bias
        if later:
            z = softplus(self.sharpness * z) / self.sharpness @ later[0].T + later[1]
        return z

    def start(self, seed: int = 0, scale: float = 1.0) -> Tensor:
        """θ as PyTorch starts its layers, uniform within 1/√(fan-in), times `scale`; float64."""
        generator = torch.Generator().manual_seed(seed)
        parts, fan_in = [], self.dimension
        for shape in self.shapes:
            fan_in = shape[1] if len(shape) == 2 else fan_in
            parts.append((2 * torch.rand(math.prod(shape), generator=generator).double() - 1) / fan_in**0.5)
        return scale * torch.cat(parts)

    def within(self, basis: Tensor) -> Classifier:
        """The same classifier on coordinates of the span of `basis` (r, dimension)."""
        return replace(self, dimension=len(basis))

    def project(self, theta: Tensor, basis: Tensor) -> Tensor:
        """θ with its first weight in coordinates of an orthonormal `basis` (r, dimension)."""
        size = math.prod(self.shapes[0])
        first = theta[:size].view(self.shapes[0]) @ basis.T
        return torch.cat([first.flatten(), theta[size:]])

    def lift(self, theta: Tensor, basis: Tensor) -> Tensor:
        """The inverse of `project` for a first weight within the span."""
        size = self.shapes[0][0] * len(basis)
        first = theta[:size].view(-1, len(basis)) @ basis
        return torch.cat([first.flatten(), theta[size:]])


@dataclass(frozen=True)
class Training:
    """The inner problem: E(θ; x) = mean loss of Φ(x; θ) on labels y (n,) + ½ · decay · ‖θ‖²."""

    classifier: Classifier
    y: Tensor
    decay: float

    def __post_init__(self) -> None:
        if not self.decay > 0:
            raise ValueError(
                f"decay must be positive, not {self.decay}: without it separable data have no minimiser"
            )
        last = 1 if self.classifier.outputs == 1 else self.classifier.outputs - 1
        if len(self.y) == 0 or int(self.y.min()) < 0 or int(self.y.max()) > last:
            raise ValueError(f"labels must be given and lie between 0 and {last}")

    def losses(self, outputs: Tensor) -> Tensor:
        """Loss of each sample: outputs (n, outputs) to (n,)."""
        if self.classifier.outputs == 1:
            return softplus((1 - 2 * self.y) * outputs[:, 0])
        return cross_entropy(outputs, self.y, reduction="none")

    def energy(self, theta: Tensor, x: Tensor) -> Tensor:
        """E at θ (p,) for images x (n, dimension)."""
        fit = self.losses(self.classifier(theta, x)).mean()
        return fit + 0.5 * self.decay * theta.square().sum()

    def multipliers(self, theta: Tensor, x: Tensor) -> Tensor:
        """(n, outputs): what each image weighs in θ = Σ λ_i ∇Φ(x_i), that is −∂loss/∂Φ / (n · decay)."""
        outputs = self.classifier(theta, x).detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.losses(outputs).sum(), outputs)
        return -slope / (len(x) * self.decay)

    def within(self, basis: Tensor) -> Training:
        """The same problem on coordinates of the span of `basis`."""
        return replace(self, classifier=self.classifier.within(basis))


def span(x: Tensor) -> Tensor:
    """An orthonormal basis (min(n, d), d) of a space that contains all rows of x (n, d).

    At a minimiser the first weight lies in the span of the images: what lies outside has only decayed.
    """
    return torch.linalg.qr(x.detach().T).Q.T
