"""Figures and claims of Haim et al. 2022."""

from __future__ import annotations

from reconlib.catalogue.figure import HELD_OUT, Figure
from reconlib.claims import Claim, Rule, at_least, at_most

FIGURES = tuple(
    Figure("H", number, title, notebook)
    for number, title, notebook in [
        ("1", "Training images and what the weights gave back", "haim_fig3_cifar_mnist"),
        ("2", "Points in the plane", "haim_toy_2d"),
        ("3", "CIFAR-10 and MNIST galleries", "haim_fig3_cifar_mnist"),
        ("4", "Quality against the output: samples, depth, width", "haim_fig4_scatter"),
        ("appendix: first layer", "Rows of the first layer as images", "haim_fig3_cifar_mnist"),
        ("appendix: biases", "A network that is not homogeneous", "haim_fig4_scatter"),
        ("appendix: optimisers", "Trained with SGD and Adam, with and without decay", "haim_fig4_scatter"),
    ]
)


def _claim(
    id: str, figures: tuple[str, ...], notebook: str, statement: str, expected: str, *rules: Rule
) -> Claim:
    return Claim(id, "H", figures, notebook, statement, expected, rules)


CLAIMS = (
    _claim(
        "H2-plane",
        ("2",),
        "haim_toy_2d",
        "In the plane, candidates move to the training points without any prior.",
        "candidates end at the 20 training points",
        at_least(
            "recovered_share",
            0.9,
            0.5,
            meaning="share of points with a candidate within a tenth of the spacing",
        ),
    ),
    _claim(
        "H3-cifar",
        ("1", "3"),
        "haim_fig3_cifar_mnist",
        "A binary network trained on 500 CIFAR-10 images gives many of them back.",
        "17 above SSIM 0.4, best 0.636, in two runs",
        at_least("good", 17, 8, meaning="training images above SSIM 0.4"),
        at_least("best", 0.636, 0.55, meaning="highest SSIM of a training image with its reconstruction"),
        HELD_OUT,
    ),
    _claim(
        "H3-mnist",
        ("3",),
        "haim_fig3_cifar_mnist",
        "A binary network trained on 500 MNIST digits gives digits of the training set back.",
        "readable digits (best SSIM 0.24: ranked by distance, not by SSIM)",
        at_least(
            "rate_by_distance",
            0.2,
            0.1,
            meaning="true-positive rate at 5 % false positives, by matching distance",
        ),
    ),
    _claim(
        "H3-test-accuracy",
        ("3",),
        "haim_fig3_cifar_mnist",
        "The attacked networks generalise as published.",
        "test accuracy 77.6 % (CIFAR-10) and 88.0 % (MNIST)",
        at_most("cifar_difference", 0.03, 0.06, meaning="|test accuracy − 0.776|"),
        at_most("mnist_difference", 0.03, 0.06, meaning="|test accuracy − 0.880|"),
    ),
    _claim(
        "H4-margin",
        ("4",),
        "haim_fig4_scatter",
        "What comes back lies near the margin.",
        "high SSIM at small outputs only",
        at_least(
            "near_share", 0.75, 0.6, meaning="share of images above 0.4 in the nearer half of all distances"
        ),
    ),
    _claim(
        "H4-samples",
        ("4",),
        "haim_fig4_scatter",
        "Images come back for 50, 100, 500 and 1,000 training samples.",
        "good reconstructions at each size",
        at_least("sizes_with_good", 4, 2, meaning="sizes with at least five images above SSIM 0.4"),
        HELD_OUT,
    ),
    _claim(
        "H4-architectures",
        ("4",),
        "haim_fig4_scatter",
        "Images come back from networks of two to five layers and of several widths.",
        "good reconstructions for each architecture",
        at_least(
            "architecture_share", 0.8, 0.5, meaning="share of architectures with five or more above 0.4"
        ),
        HELD_OUT,
    ),
    _claim(
        "H-biases",
        ("appendix: biases",),
        "haim_fig4_scatter",
        "The attack also works on a network with biases in all layers, which is not homogeneous.",
        "good reconstructions",
        at_least("good", 5, 1, meaning="training images above SSIM 0.4"),
        HELD_OUT,
    ),
    _claim(
        "H-first-layer",
        ("appendix: first layer",),
        "haim_fig3_cifar_mnist",
        "The attack finds more than the rows of the first layer show by themselves.",
        "rows look like mixtures, reconstructions like images",
        at_least("rows_ratio", 2, 1, meaning="images above SSIM 0.4, attack over first-layer rows"),
    ),
    _claim(
        "H-optimisers",
        ("appendix: optimisers",),
        "haim_fig4_scatter",
        "Models trained with SGD or Adam, with or without decay, can be attacked in the same way.",
        "good reconstructions for each way of training",
        at_least("trainings_with_good", 4, 2, meaning="of the four ways, those with five or more above 0.4"),
        HELD_OUT,
    ),
)
