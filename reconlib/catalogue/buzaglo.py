"""Figures and claims of Buzaglo et al. 2023."""

from __future__ import annotations

from reconlib.catalogue.figure import HELD_OUT, Figure
from reconlib.claims import Claim, Rule, at_least, at_most

FIGURES = tuple(
    Figure("B", number, title, notebook)
    for number, title, notebook in [
        ("1", "Best reconstructions of each class, ten-class network", "fig1_multiclass_gallery"),
        ("2", "Quality against distance from the boundary, ten classes and two", "fig2_multiclass_vs_binary"),
        ("3", "Number of classes and samples per class", "fig3_classes_and_samples"),
        ("4", "Losses other than cross-entropy", "fig4_general_losses"),
        ("5", "Good reconstructions against weight decay", "fig5_weight_decay"),
        ("6", "Convolutional network: reconstructions", "fig6_cnn"),
        ("7", "Width against number of samples", "fig7_neurons_vs_samples"),
        ("8", "The threshold on SSIM", "fig8_ssim_threshold"),
        ("9", "Weight decay against a smaller start (correction)", "fig5_weight_decay"),
        ("10", "Number of classes at a fixed number of samples", "fig10_classes_fixed_n"),
        ("11", "Gallery: squared error", "fig4_general_losses"),
        ("12", "Gallery: power 2.5", "fig4_general_losses"),
        ("13", "Gallery: Huber", "fig4_general_losses"),
        ("14", "Scatter and errors for each weight decay", "fig5_weight_decay"),
        ("15", "Kernel size and number of channels", "fig15_cnn_ablations"),
        ("16", "The convolution's kernels as images", "fig6_cnn"),
        ("17", "5,000 samples of CIFAR-100", "fig17_cifar100_5000"),
    ]
)


def _claim(id: str, figures: str, notebook: str, statement: str, expected: str, *rules: Rule) -> Claim:
    return Claim(id, "B", tuple(figures.split()), notebook, statement, expected, rules)


CLAIMS = (
    _claim(
        "B1-every-class",
        "1",
        "fig1_multiclass_gallery",
        "A ten-class network trained on 50 images per class gives back images of every class.",
        "ten recognisable images for each of the ten classes; at least 30 above SSIM 0.4 in two runs",
        at_least("classes_with_good", 10, 7, meaning="classes with at least one image above SSIM 0.4"),
        at_least("good", 30, 15, meaning="training images above SSIM 0.4"),
        HELD_OUT,
    ),
    _claim(
        "B1-best",
        "1",
        "fig1_multiclass_gallery",
        "The best reconstructions of the ten-class network are close to their training images.",
        "best SSIM 0.646 in two runs",
        at_least("best", 0.646, 0.55, meaning="highest SSIM of a training image with its reconstruction"),
    ),
    _claim(
        "B2-more-than-binary",
        "2",
        "fig2_multiclass_vs_binary",
        "With 500 images, ten classes give more good reconstructions than two.",
        "visibly more points above 0.4",
        at_least("count_ratio", 1.5, 1.0, meaning="images above SSIM 0.4, ten classes over two"),
        HELD_OUT,
    ),
    _claim(
        "B2-margin",
        "2",
        "fig2_multiclass_vs_binary",
        "What comes back lies near the margin.",
        "points above 0.4 cluster at the smallest distances",
        at_least(
            "near_share_multiclass",
            0.75,
            0.6,
            meaning="share of images above 0.4 that lie in the nearer half of all distances, ten classes",
        ),
        at_least("near_share_binary", 0.75, 0.6, meaning="the same for two classes"),
    ),
    _claim(
        "B3-classes",
        "3",
        "fig3_classes_and_samples",
        "More classes give more good reconstructions at the same number of samples per class.",
        "counts rise with the number of classes 2, 3, 4, 5, 10",
        at_least(
            "class_trend",
            0.8,
            0.4,
            meaning="rank correlation of the count with the classes, mean over samples",
        ),
        HELD_OUT,
    ),
    _claim(
        "B3-samples",
        "3",
        "fig3_classes_and_samples",
        "With the number of classes fixed, the count hardly depends on the number of samples.",
        "similar counts from 50 samples per class on",
        at_most(
            "count_spread",
            1.5,
            2.5,
            meaning="largest over smallest count from 50 samples per class on, median over classes",
        ),
    ),
    _claim(
        "B4-squared-error",
        "4 11",
        "fig4_general_losses",
        "A network trained with the squared error and weight decay on 500 images gives images back.",
        "4 above SSIM 0.4, best 0.450, in two runs",
        at_least("good", 4, 2, meaning="images above SSIM 0.4 at n = 500"),
        at_least("best", 0.45, 0.4, meaning="highest SSIM at n = 500"),
        HELD_OUT,
    ),
    _claim(
        "B4-every-loss",
        "4 11 12 13",
        "fig4_general_losses",
        "Reconstruction works for squared error, power 2.5 and Huber alike.",
        "recognisable images for each of the three losses",
        at_least("losses_with_good", 3, 2, meaning="losses with at least four images above 0.4 at some n"),
        HELD_OUT,
    ),
    _claim(
        "B4-harder-losses",
        "4 12 13",
        "fig4_general_losses",
        "Losses that punish large errors harder give better reconstructions.",
        "quality ordered Huber, squared error, power 2.5",
        at_least(
            "hardness_trend", 0.5, 0.0, meaning="rank correlation of the count with that order, mean over n"
        ),
    ),
    _claim(
        "B5-quantity",
        "5",
        "fig5_weight_decay",
        "Weight decay raises the number of good reconstructions.",
        "peak well above the baselines without decay, binary and multiclass",
        at_least("binary_ratio", 1.5, 1.0, meaning="best count with decay over the best baseline, binary"),
        at_least("multiclass_ratio", 1.5, 1.0, meaning="the same, multiclass"),
        HELD_OUT,
    ),
    _claim(
        "B5-quality",
        "5 14",
        "fig5_weight_decay",
        "Weight decay raises the quality of the best reconstructions.",
        "higher SSIM of the best images at the best decay",
        at_least(
            "binary_gain", 0.05, 0.0, meaning="mean SSIM of the 20 best, best decay minus baseline, binary"
        ),
        at_least("multiclass_gain", 0.05, 0.0, meaning="the same, multiclass"),
    ),
    _claim(
        "B9-smaller-start",
        "9",
        "fig5_weight_decay",
        "Weight decay also beats a baseline whose first layer starts ten times smaller.",
        "the corrected figure keeps the conclusion with the start at 1e-4",
        at_least(
            "small_start_ratio", 1.2, 1.0, meaning="best count with decay over the baseline at start 1e-4"
        ),
    ),
    _claim(
        "B14-margin",
        "14",
        "fig5_weight_decay",
        "With weight decay more samples lie on the margin.",
        "the scatter plots show more points at the margin for the decays with high counts",
        at_least("margin_ratio", 1.2, 1.0, meaning="samples on the margin, best decay over baseline"),
    ),
    _claim(
        "B14-training-error",
        "14",
        "fig5_weight_decay",
        "Images come back even when the training error is not zero.",
        "good reconstructions at decays with non-zero training error",
        at_least(
            "good_with_error", 10, 1, meaning="largest count among models with training error above zero"
        ),
        HELD_OUT,
    ),
    _claim(
        "B14-test-error",
        "14",
        "fig5_weight_decay",
        "The decays that raise the count hardly change the test error.",
        "differences of a few points",
        at_most("test_error_change", 0.03, 0.06, meaning="|test error − baseline's| at the best decay"),
    ),
    _claim(
        "B6-convolution",
        "6",
        "fig6_cnn",
        "A network with a convolution in front gives training images back.",
        "a gallery of recognisable images from CONV(3, 32)-1000-1 on 500 images",
        at_least("good", 10, 1, meaning="images above SSIM 0.4 of 500"),
        HELD_OUT,
    ),
    _claim(
        "B16-kernels",
        "16",
        "fig6_cnn",
        "The images are not simply copied in the first layer: its kernels show none of them.",
        "32 kernels of 3×3 pixels, no picture among them",
        at_most(
            "kernel_excess",
            0,
            2,
            meaning="images above 0.4 with enlarged kernels as candidates, less the held-out ones above it",
        ),
    ),
    _claim(
        "B7-neurons",
        "7",
        "fig7_neurons_vs_samples",
        "More neurons per sample make more of the samples reconstructable.",
        "the heat map rises with width and falls with the number of samples",
        at_least(
            "width_trend", 0.7, 0.3, meaning="rank correlation of the share above 0.4 with width, mean over n"
        ),
        at_least("ratio_trend", 0.7, 0.3, meaning="rank correlation of that share with p/(d·n), all cells"),
        HELD_OUT,
    ),
    _claim(
        "B8-threshold",
        "8",
        "fig8_ssim_threshold",
        "An SSIM of 0.4 separates reconstructions from chance.",
        "pairs above 0.4 look alike, pairs well below do not",
        at_most("held_out_share", 0.01, 0.05, meaning="share of held-out images above 0.4"),
        at_least("area", 0.6, 0.5, meaning="area under the ROC of members against held-out images by SSIM"),
    ),
    _claim(
        "B10-six-times",
        "10",
        "fig10_classes_fixed_n",
        "With 500 images, ten classes give more than six times the good reconstructions of two.",
        "more than 6×",
        at_least("count_ratio", 6, 2, meaning="images above SSIM 0.4, ten classes over two"),
        HELD_OUT,
    ),
    _claim(
        "B10-quality",
        "10",
        "fig10_classes_fixed_n",
        "Ten classes also give higher SSIM than two.",
        "the cloud of points moves up",
        at_least("ssim_gain", 0.05, 0.0, meaning="mean SSIM of the 30 best, ten classes minus two"),
    ),
    _claim(
        "B15-channels",
        "15",
        "fig15_cnn_ablations",
        "Fewer channels give fewer good reconstructions.",
        "counts fall from 64 channels to 8",
        at_least(
            "channel_trend",
            0.7,
            0.3,
            meaning="rank correlation of the count with channels, mean over kernels",
        ),
        HELD_OUT,
    ),
    _claim(
        "B15-middle-kernels",
        "15",
        "fig15_cnn_ablations",
        "Kernels of intermediate size give next to nothing.",
        "counts near zero at intermediate sizes",
        at_most(
            "middle_ratio", 0.25, 0.5, meaning="smallest mean count at sizes 10 to 25 over the count at 3"
        ),
    ),
    _claim(
        "B15-full-kernel",
        "15",
        "fig15_cnn_ablations",
        "A kernel as large as the image restores reconstruction.",
        "size 32 behaves like a fully connected layer",
        at_least("full_ratio", 2, 1.2, meaning="mean count at size 32 over the smallest at sizes 10 to 25"),
    ),
    _claim(
        "B17-few-dozen",
        "17",
        "fig17_cifar100_5000",
        "A network trained on 5,000 images of 100 classes still gives a few dozen back.",
        "a few dozen above 0.4 at width 10,000",
        at_least("good", 24, 5, meaning="images above SSIM 0.4 of 5,000"),
        HELD_OUT,
    ),
)
