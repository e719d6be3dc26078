"""What the equation is compared with: looking at the first layer, and maximising the output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reconlib.attack.check import check_model
from reconlib.attack.equations import equation_named
from reconlib.attack.layers import read_chain


def first_layer_rows(model: nn.Module) -> Tensor:
    """Every first-layer neuron's weights as an image, with both signs, (2h, *input_shape).

    A row is a signed sum of training images, so either sign may show one.
    """
    chain = read_chain(model)
    if chain is None:
        raise ValueError("only a network whose first layer is a matrix or a convolution has rows to look at")
    weight = chain.weights[0].detach().float().cpu()
    shape = check_model(model, "general").input_shape
    if weight[0].numel() != torch.Size(shape).numel():
        raise ValueError(
            f"a kernel of shape {tuple(weight.shape[1:])} is a patch of an image of shape {shape}, not an "
            "image: this baseline is for fully connected networks, and for kernels as large as the image"
        )
    rows = weight.reshape(-1, *shape)
    return torch.cat([rows, -rows])


def maximise_output(
    model: nn.Module,
    equation: str = "binary",
    *,
    candidates: int = 1000,
    steps: int = 200,
    rate: float = 0.02,
    start_scale: float = 0.02,
    seed: int = 0,
) -> Tensor:
    """Images in [−1, 1] from noise on which the network is surest of a label, (m, *input_shape).

    Ascends the margin that `equation` attaches to each candidate's label with signed gradient steps;
    general losses have no labels, and half of the candidates ascend each output and half descend it.
    """
    entry = equation_named(equation)
    report = check_model(model, equation)
    generator = torch.Generator().manual_seed(seed)
    like = next(model.parameters())
    x = start_scale * torch.randn(candidates, *report.input_shape, generator=generator)
    x = x.to(device=like.device, dtype=like.dtype)
    labels = entry.labels(candidates, report.outputs)
    labels = None if labels is None else labels.to(like.device)
    signs = (1 - 2 * (torch.arange(candidates) % 2)).to(x)[:, None]
    for step in range(steps):
        x.requires_grad_()
        out = model(x).reshape(candidates, -1)
        y = signs.expand_as(out) if labels is None else entry.coefficients(out.detach(), labels)
        (gradient,) = torch.autograd.grad((y * out).sum(), x)
        with torch.no_grad():
            x = (x + rate * (1 - step / steps) * gradient.sign()).clamp_(-1, 1)
    return x.detach().float().cpu()
