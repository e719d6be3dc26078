# %% [markdown]
# # Neurons against samples
#
# | Question | How wide must a network be to give its training images away? |
# |---|---|
# | Claim | The more neurons per sample, the more samples can be reconstructed (Buzaglo et al. 2023) |
# | Figure | 7 |
# | Expected | a share that rises with the width and falls with the number of samples |
# | Cost | about 35 minutes on 2 cores, no GPU |
# | Command | `papermill notebooks/fig7_neurons_vs_samples.py` |
# | Differs from the paper | faster training and attack, three seeds, controls, p/(d·n): see below |
#
# In detail:
#
# - Training goes to the limit of gradient flow, and one run of a shorter attack follows. Where
#   the papers take twice as many candidates as there are images, small sets here get at least 100.
# - Narrow networks cannot always separate their images. They are attacked all the same.
# - Added: three seeds, held-out images as a control, and the share against the number of parameters over
#   the number of pixels to be found.

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # the first of the seeds of networks and attacks
seeds: int = 3  # networks of each size
widths: list = [5, 10, 50, 100, 500, 1000]  # neurons in each of the two hidden layers
samples: list = [10, 50, 100, 300, 500]  # training images, half of each label
least_candidates: int = 100  # candidates of an attack: twice the images, but not fewer than this

# %% tags=["hide-input"]
from dataclasses import replace

from IPython.display import Markdown

from reconlib.claims import trend
from reconlib.experiments import Experiment, run
from reconlib.galleries import gallery
from reconlib.plots import Series, curves, heat_map
from reconlib.profiles import at_profile
from reconlib.results import record
from reconlib.sweeps import check_reconstructions, held_out_ratio, spread, sweep
from reconlib.verdicts import claims_markdown, provenance_markdown

if profile == "smoke":
    widths, samples, seeds, least_candidates = [10, 200], [10, 20], 1, 40
parameters = {"seed": seed, "seeds": seeds, "widths": widths, "samples": samples}
result = record("fig7_neurons_vs_samples", profile, parameters | {"least_candidates": least_candidates})

# %% [markdown]
# ## The claim
#
# The equation $\theta = \sum_i \lambda_i \nabla_\theta y_i\Phi(x_i;\theta)$ has as many rows as the
# network has parameters, $p$, and as unknowns the $d$ pixels of each of the $n$ images. A network with
# too few parameters leaves the images undetermined; theory asks for $p$ well above $d\cdot n$. The paper
# varies the width and the number of samples and finds that neurons per sample decide.
#
# ## The experiment
#
# Vehicles against animals, d-W-W-1, without weight decay, for every width and every number of samples.


# %%
def of_size(width, n):
    """The experiment with two layers of `width` neurons and `n` images."""
    attack = {"restarts": 1, "candidates": max(2 * n, least_candidates)}
    return at_profile(Experiment(per_class=n // 2, hidden=(width, width), attack=attack), profile)


grid = sweep(
    {(width, n): of_size(width, n) for width in widths for n in samples},
    axes=["width", "samples"],
    seeds=range(seed, seed + seeds),
    result=result,
    name="sizes",
)
pixels = run(replace(of_size(widths[0], samples[0]), seed=seed)).task.mean.numel()

# %% [markdown]
# ## The figure
#
# The share of the training images with a reconstruction above SSIM 0.4, mean over seeds.


# %% tags=["hide-input"]
def table(metric):
    """Means over seeds as rows of widths, the widest above."""
    return [[grid.mean(metric, (width, n)) for n in samples] for width in reversed(widths)]


axes = {"row_label": "neurons per layer", "column_label": "training images"}
heat_map(
    [[100 * value for value in row] for row in table("share")],
    list(reversed(widths)),
    samples,
    value_label="% above SSIM 0.4",
    **axes,
)

# %% tags=["hide-input"]
heat_map(table("good"), list(reversed(widths)), samples, value_label="images above SSIM 0.4", **axes)

# %% [markdown]
# What the same candidates reach among as many held-out images, by the same mark:

# %% tags=["hide-input"]
heat_map(table("held_out_good"), list(reversed(widths)), samples, value_label="held out above 0.4", **axes)

# %% [markdown]
# And without a fixed mark: the share of training images above the SSIM that 99 % of held-out images stay
# below.

# %% tags=["hide-input"]
heat_map(
    [[100 * value for value in row] for row in table("rate")],
    list(reversed(widths)),
    samples,
    value_label="% at 1 % of held out",
    **axes,
)

# %% [markdown]
# ## Parameters against unknowns
#
# The same shares against $p/(d\cdot n)$, the rows of the equation over the pixels to be found.

# %% tags=["hide-input"]
curves(
    [
        Series(
            f"{n} images",
            [grid[width, n][0].parameters / (pixels * n) for width in widths],
            [grid.values("share", (width, n)) for width in widths],
        )
        for n in samples
    ],
    x_label="parameters / (pixels × images)",
    y_label="share above SSIM 0.4",
    log_x=True,
)

# %% tags=["hide-input"]
cells = list(grid.points)
crowding = [grid[cell][0].parameters / (pixels * cell[1]) for cell in cells]
width_trends = [
    sum(trend(widths, grid.by_seed("share", [(w, n) for w in widths])[s]) for n in samples) / len(samples)
    for s in range(seed, seed + seeds)
]
totals = sum(p.good for p in grid), sum(p.held_out_good for p in grid)
ratio_trends = [trend(crowding, shares) for shares in grid.by_seed("share", cells).values()]
low, high = (widths[0], samples[-1]), (widths[-1], samples[-1])
peak = grid.best("share")
Markdown(f"""With {samples[-1]} images {spread(grid.values("share", low), "{:.1%}")} come back from two
layers of {widths[0]} neurons and {spread(grid.values("share", high), "{:.1%}")} from two layers of
{widths[-1]}. The highest share is {spread(grid.values("share", peak), "{:.0%}")}, with {peak[0]} neurons
and {peak[1]} images. Within a number of images, the rank correlation of the share with the width is
{spread(width_trends, "{:.2f}")} on average; over all cells its rank correlation with $p/(d\\cdot n)$ is
{spread(ratio_trends, "{:.2f}")}. In all {len(cells) * seeds} networks together {totals[1]} held-out images
pass, and {totals[0]} training images.""")

# %% [markdown]
# ## What a wide and a narrow network give back

# %% tags=["hide-input"]
middle = samples[len(samples) // 2]
wide = run(replace(of_size(widths[-1], middle), seed=seed))
title = f"{widths[-1]} neurons per layer, {middle} images"
gallery(wide.controls.attack, wide.task.x, wide.task.mean, count=10, title=title)

# %% tags=["hide-input"]
narrow = run(replace(of_size(widths[len(widths) // 3], middle), seed=seed))
title = f"{widths[len(widths) // 3]} neurons per layer, {middle} images"
gallery(narrow.controls.attack, narrow.task.x, narrow.task.mean, count=10, title=title)

# %% [markdown]
# ## Every cell

# %% tags=["hide-input"]
Markdown(grid.markdown("train_error", "test_error"))

# %% [markdown]
# ## Verdict

# %% tags=["hide-input"]
per_seed = [[p for p in grid if p.experiment.seed == s] for s in range(seed, seed + seeds)]
result.claim(
    "B7-neurons",
    width_trend=width_trends,
    ratio_trend=ratio_trends,
    held_out_ratio=[held_out_ratio(points) for points in per_seed],
)
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
if profile == "smoke":
    print(check_reconstructions(p for p in grid if p.experiment.hidden[0] == widths[-1]))
result.save()
Markdown(provenance_markdown(result.to_dict()))
