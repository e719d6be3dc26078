# %% [markdown]
# # Photographs and digits from two-class networks
#
# | Question | What does a network that answers one yes-or-no question give back of its training images? |
# |---|---|
# | Claim | Many of 500 CIFAR-10 images, and readable digits of 500 from MNIST (Haim et al. 2022) |
# | Figure | Haim et al. 2022, figures 1 and 3, and the appendix on the first layer |
# | Expected | 17 above SSIM 0.4; digits nearer than chance; test accuracy 77.6 % and 88.0 % |
# | Cost | about 15 to 25 minutes on 2 cores, no GPU, after figure 2, which shares a network |
# | Command | `papermill notebooks/haim_fig3_cifar_mnist.py` |
# | Differs from the paper | faster training and attack, three seeds, controls: see below |
#
# In detail:
#
# - Both networks are trained past the published loss, to the limit of gradient flow, and three restarts of
#   a shorter attack are pooled. The paper pools two long runs, chosen from a search over settings that was
#   scored with the training set.
# - The attack's settings were found on other CIFAR-10 images and are used for the digits as they are.
# - Added: three seeds with their range, held-out images as a control, and the rows of the first layer
#   judged in the same way as the candidates.

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # the first of the seeds of networks and attacks
seeds: int = 3  # networks of each kind
samples: int = 500  # training images of each network
columns: int = 15  # pairs in a row of a gallery

# %% tags=["hide-input"]
from dataclasses import replace

from IPython.display import Markdown

from reconlib.attack import first_layer_rows
from reconlib.claims import ratio
from reconlib.experiments import Experiment, run
from reconlib.galleries import gallery, images, pairs
from reconlib.plots import distributions, rate_curves
from reconlib.profiles import at_profile
from reconlib.rates import roc
from reconlib.results import record
from reconlib.sweeps import NEAR, check_reconstructions, held_out_ratio, spread, sweep
from reconlib.verdicts import claims_markdown, provenance_markdown

if profile == "smoke":
    samples, seeds, columns = 20, 2, 10
parameters = {"seed": seed, "seeds": seeds, "samples": samples, "columns": columns}
result = record("haim_fig3_cifar_mnist", profile, parameters)

# %% [markdown]
# ## The claim
#
# This is the experiment that started it. A network with three layers and a single output learns to tell
# vehicles from animals, or odd from even digits. Its weights, so the theory of the margin says, end as a
# weighted sum over the training images, $\theta = \sum_i \lambda_i y_i \nabla_\theta\Phi(x_i;\theta)$ with
# $\lambda_i \ge 0$. The paper solves this for the images, and shows that what comes out are pictures of
# the training set, from networks with an everyday test error.
#
# ## The experiment

# %%
cells = {
    "CIFAR-10": Experiment(per_class=samples // 2),
    "MNIST": Experiment(dataset="mnist", task="odd_vs_even", per_class=samples // 2),
}
cells = {name: at_profile(cell, profile) for name, cell in cells.items()}
if profile == "paper":  # the digits had a run of their own in the random search
    found_for_digits = {"start_scale": 3.5e-2, "rate": 0.0305, "multiplier_min": 0.447, "alpha": (150, 150)}
    cells["MNIST"] = replace(cells["MNIST"], attack={**cells["MNIST"].attack, **found_for_digits})
every_seed = range(seed, seed + seeds)
grid = sweep(cells, axes=["images"], seeds=every_seed, result=result, name="networks")
Markdown(grid.markdown("near_rate", "train_error", "test_error", "support"))

# %% [markdown]
# ## Photographs
#
# First seed, the best pairs by SSIM. Red: training images. Blue: what the weights gave back, with the SSIM
# beneath.

# %% tags=["hide-input"]
photographs = run(grid["CIFAR-10"][0].experiment)
judged = photographs.controls.attack
gallery(judged, photographs.task.x, photographs.task.mean, count=3 * columns, columns=columns)

# %% [markdown]
# What chance gives: the same candidates, judged against as many images that were never trained on.

# %% tags=["hide-input"]
names = {"training images": "attack", "held out": "held_out", "noise": "noise"}
names |= {"first-layer rows": "first_layer"}
distributions({label: photographs.controls.scores(name) for label, name in names.items()})

# %% tags=["hide-input"]
counts, held_out = (grid.values(metric, "CIFAR-10") for metric in ("good", "held_out_good"))
Markdown(f"""**{spread(counts)}** of {samples} photographs come back above SSIM 0.4 (mean and range over
{seeds} seeds), the best with {spread(grid.values("best", "CIFAR-10"), "{:.2f}")}. Of as many held-out images
{spread(held_out)} pass. At the SSIM that at most 1 % of those reach,
{spread(grid.values("rate", "CIFAR-10"), "{:.1%}")} of the training images pass.""")

# %% [markdown]
# ## Digits
#
# Here the order is by distance and not by SSIM. Most of a digit's picture is flat background. There SSIM
# rewards a reconstruction that is exactly black and punishes faint noise, whatever the strokes look like,
# so that digits which anyone can read stay below the mark; the paper's own best is far below it. The
# distance compares images after each is brought to mean zero and deviation one, and so looks at the
# strokes. Beneath each pair: the distance, 0 for the same image and about 1.4 for unrelated ones.

# %% tags=["hide-input"]
digits = run(grid["MNIST"][0].experiment)
judged = digits.controls.attack
gallery(judged, digits.task.x, digits.task.mean, count=3 * columns, columns=columns, by="distance")

# %% [markdown]
# Digits look alike, and this is where a control counts most. The same number of held-out digits, each above
# the candidate that comes nearest to it:

# %% tags=["hide-input"]
others = digits.controls.controls["held_out"]
chosen = others.ranking("distance")[:columns]
pairs(
    (digits.task.x_held_out + digits.task.mean)[chosen].clamp(0, 1),
    others.reconstruction[chosen],
    [f"{distance:.2f}" for distance in others.distance[chosen]],
    columns=columns,
    title="held out, smallest distance",
    alt=f"Held-out images, each above its nearest candidate. Smallest distance {others.distance.min():.2f}.",
)

# %% tags=["hide-input"]
rate_curves(
    {
        name: roc(*(shown.controls.scores(side, by="distance") for side in ("attack", "held_out")))
        for name, shown in {"CIFAR-10": photographs, "MNIST": digits}.items()
    },
    title="Training images told from held-out ones by distance",
)

# %% tags=["hide-input"]
rates = {name: grid.values("near_rate", name) for name in cells}
Markdown(f"""At the distance that {NEAR:.0%} of held-out digits come within,
**{spread(rates["MNIST"], "{:.0%}")}** of the training digits do; of the photographs it is
{spread(rates["CIFAR-10"], "{:.0%}")}. By SSIM {spread(grid.values("good", "MNIST"))} training digits and
{spread(grid.values("held_out_good", "MNIST"))} held-out ones pass 0.4, the best with
{spread(grid.values("best", "MNIST"), "{:.2f}")}.""")

# %% [markdown]
# ## Is it in the first layer already?
#
# At a stationary point every row of the first layer is a weighted sum of training images. A row with few of
# them might show one without any attack. Below are the rows with the largest norm, as images, and then the
# best of *all* rows, of either sign, matched with the training images as candidates are.

# %% tags=["hide-input"]
rows = first_layer_rows(photographs.trained.network)
rows = rows[: len(rows) // 2]
largest = rows.flatten(1).norm(dim=1).argsort(descending=True)[: 2 * columns]
images(rows[largest], columns=columns, title="rows", alt="Rows of the first layer: mixtures of many images.")

# %% tags=["hide-input"]
from_rows = photographs.controls.controls["first_layer"]
title = "training images above the row that is nearest"
gallery(from_rows, photographs.task.x, photographs.task.mean, count=columns, columns=columns, title=title)

# %% tags=["hide-input"]
shown_by_rows = [p.summary["controls"]["first_layer"]["good"] for p in grid["CIFAR-10"]]
times = [ratio(attack, rows) for attack, rows in zip(counts, shown_by_rows, strict=True)]
result.metric("first_layer_good", shown_by_rows)
Markdown(f"""The rows show {spread(shown_by_rows)} of {samples} photographs above SSIM 0.4, the attack
{spread(counts)}: {spread(times, "{:.1f}")} times as many.""")

# %% [markdown]
# ## Verdicts
#
# The accuracy is compared with the published one, on the same number of test images.

# %% tags=["hide-input"]
published = {"CIFAR-10": 0.776, "MNIST": 0.880}
accuracy = {name: [1 - error for error in grid.values("test_error", name)] for name in cells}
differences = {name: [abs(a - published[name]) for a in accuracy[name]] for name in cells}
result.claim(
    "H3-cifar",
    good=counts,
    best=grid.values("best", "CIFAR-10"),
    held_out_ratio=[held_out_ratio([p]) for p in grid["CIFAR-10"]],
)
result.claim("H3-mnist", rate_by_distance=rates["MNIST"])
result.claim(
    "H3-test-accuracy", cifar_difference=differences["CIFAR-10"], mnist_difference=differences["MNIST"]
)
result.claim("H-first-layer", rows_ratio=times)
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
Markdown(f"""Test accuracy here: {spread(accuracy["CIFAR-10"], "{:.1%}")} on CIFAR-10 and
{spread(accuracy["MNIST"], "{:.1%}")} on MNIST; training error {
    spread(grid.values("train_error", "CIFAR-10"), "{:.1%}")
} and {spread(grid.values("train_error", "MNIST"), "{:.1%}")}.""")

# %% tags=["hide-input"]
if profile == "smoke":
    print(*(check_reconstructions(grid[name]) for name in cells), sep="\n")
result.save()
Markdown(provenance_markdown(result.to_dict()))
