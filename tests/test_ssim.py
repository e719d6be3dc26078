"""SSIM against scipy filters and scikit-image, which share no code with the library."""

import numpy as np
import pytest
import torch
from scipy.ndimage import correlate1d
from skimage.metrics import structural_similarity

from reconlib.ssim import DEFINITIONS, ssim


def pairs(shape, seed=0):
    """Smooth images and noisy copies: SSIM between 0 and 1, not only near 0 as for pure noise."""
    draw = torch.Generator().manual_seed(seed)
    base = torch.nn.functional.interpolate(
        torch.rand((shape[0], shape[1], 5, 5), generator=draw, dtype=torch.float64),
        shape[2:],
        mode="bilinear",
    )
    strength = torch.linspace(0, 0.5, shape[0], dtype=torch.float64).view(-1, 1, 1, 1)
    return base, (base + strength * torch.randn(shape, generator=draw, dtype=torch.float64)).clamp(0, 1)


def reference(a, b):
    """The published definition in scipy: its "mirror" is torch's "reflect"."""
    offset = np.array([-1.0, 0.0, 1.0])
    line = np.exp(-(offset**2) / (2 * 1.5**2))
    line /= line.sum()

    def blur(image):
        return correlate1d(correlate1d(image, line, axis=0, mode="mirror"), line, axis=1, mode="mirror")

    scores = []
    for p, q in zip(a, b, strict=True):
        ma, mb = blur(p), blur(q)
        va, vb, cov = blur(p * p) - ma * ma, blur(q * q) - mb * mb, blur(p * q) - ma * mb
        top = (2 * ma * mb + 0.01**2) * (2 * cov + 0.03**2)
        scores.append((top / ((ma**2 + mb**2 + 0.01**2) * (va + vb + 0.03**2))).mean())
    return np.mean(scores)


@pytest.mark.parametrize("shape", [(9, 3, 32, 32), (9, 1, 28, 28), (4, 2, 5, 9)])
def test_published_definition_equals_the_scipy_reference(shape):
    a, b = pairs(shape)
    expected = [reference(p.numpy(), q.numpy()) for p, q in zip(a, b, strict=True)]
    assert min(expected) < 0.8 < max(expected)
    np.testing.assert_allclose(ssim(a, b).numpy(), expected, atol=1e-10)
    np.testing.assert_allclose(ssim(a.float(), b.float()).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("skimage", {}),
        ("skimage_gaussian", {"gaussian_weights": True}),
        ("wang", {"gaussian_weights": True, "use_sample_covariance": False}),
    ],
)
@pytest.mark.parametrize("shape", [(6, 3, 32, 32), (6, 1, 28, 28)])
def test_other_definitions_equal_scikit_image(name, arguments, shape):
    a, b = pairs(shape, seed=1)
    expected = [
        structural_similarity(p.numpy(), q.numpy(), channel_axis=0, data_range=1.0, **arguments)
        for p, q in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(ssim(a, b, name).numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_an_image_equals_itself_and_order_does_not_matter(name):
    a, b = pairs((5, 3, 16, 16))
    torch.testing.assert_close(ssim(a, a, name), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(ssim(a, b, name), ssim(b, a, name))


def test_batches_do_not_change_the_result_and_the_empty_batch_works():
    a, b = pairs((7, 3, 16, 16))
    torch.testing.assert_close(ssim(a, b, batch=2), ssim(a, b))
    assert ssim(a[:0], b[:0]).shape == (0,)


def test_errors_say_what_exists():
    a, b = pairs((2, 1, 8, 8))
    with pytest.raises(KeyError, match="published"):
        ssim(a, b, "unheard-of")
    with pytest.raises(ValueError, match="one shape"):
        ssim(a, b[:1])
    with pytest.raises(ValueError, match="smaller than the 11-pixel window"):
        ssim(a, b, "wang")
