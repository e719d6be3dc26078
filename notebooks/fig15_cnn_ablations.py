# %% [markdown]
# # Kernel size and number of channels
#
# | Question | How do a convolution's kernel size and its channels change what comes back? |
# |---|---|
# | Claim | Fewer channels give less, kernels of middle size next to nothing, full size restores it |
# | Figure | 15 (Buzaglo et al. 2023) |
# | Expected | counts that rise with the channels and, along the kernel size, fall and rise again |
# | Cost | about three hours on 2 cores, no GPU, nearly two of them shared with figure 6; resumable |
# | Command | `papermill notebooks/fig15_cnn_ablations.py` |
# | Differs from the paper | a tenth of images and neurons, one seed, a shorter attack, controls: see below |
#
# In detail:
#
# - The paper trains every network on 500 images with 1,000 hidden neurons. Here both are a tenth of that,
#   50 and 100, so that the neurons per image stay the same. Kernels and channels are the paper's.
# - Two networks at full size, 32 channels with the smallest and the largest kernel, check the scaling. No
#   middle kernel was run at full size, where convolutions are dearest: `full_kernels` adds it.
# - Training descends to a stationary point, and a single attack with Adam replaces the paper's many.
# - One network in each cell: a verdict on one seed has no interval.
# - Added: held-out images as a control for every cell, and a search for what goes with the counts, which
#   the paper leaves open.

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # the first of the seeds of networks and attacks
seeds: int = 1  # networks of each kind
kernels: list = [3, 5, 10, 15, 20, 25, 32]  # pixels on a side
channels: list = [8, 16, 32, 64]  # kernels of a network
samples: int = 50  # training images, half of each label
hidden: int = 100  # neurons behind the convolution
steps: int = 600  # of the attack on a small network
full_kernels: list = [3, 32]  # kernels of the column at full size
full_channels: int = 32  # channels of that column
full_samples: int = 500  # its training images
full_hidden: int = 1000  # its neurons
full_train_steps: int = 1400  # of training on it, at most, as in figure 6
full_steps: int = 800  # of the attack on it, as in figure 6

# %% tags=["hide-input"]
from dataclasses import replace
from statistics import fmean

from IPython.display import Markdown

from reconlib import convolutions
from reconlib.claims import trend
from reconlib.convolutions import BOUND, convolution, explain, explained, totals
from reconlib.experiments import run
from reconlib.galleries import gallery
from reconlib.plots import Series, curves, heat_map
from reconlib.profiles import at_profile
from reconlib.results import record
from reconlib.sweeps import check_reconstructions, held_out_ratio, point, spread, sweep
from reconlib.verdicts import claims_markdown, provenance_markdown

if profile == "smoke":
    kernels, channels, samples, hidden = [3, 20, 28], [4, 32], 20, 50
    full_kernels, full_samples, full_hidden = [20, 28], 40, 50
if profile == "paper":
    samples, hidden = full_samples, full_hidden
every_seed = range(seed, seed + seeds)

# %% tags=["hide-input"]
parameters = {"seed": seed, "seeds": seeds, "kernels": kernels, "channels": channels, "samples": samples}
parameters |= {"hidden": hidden, "steps": steps, "full_kernels": full_kernels}
parameters |= {"full_channels": full_channels, "full_samples": full_samples, "full_hidden": full_hidden}
parameters |= {"full_train_steps": full_train_steps, "full_steps": full_steps}
result = record("fig15_cnn_ablations", profile, parameters)

# %% [markdown]
# ## The claim
#
# A kernel of one pixel would see colours, one as large as the image sees the whole, and then the
# convolution is a fully connected layer with as many neurons as it has channels. In between, the layer
# hands on fewer numbers the larger the kernel is, since fewer places are left for it. The paper finds many
# reconstructions at both ends and hardly any between them, and fewer with fewer channels. It does not say
# why.
#
# ## The experiment
#
# Vehicles against animals with weight decay, one convolution, one hidden layer, one output, for every
# kernel size and every number of channels.

# %%
small = {"images": samples, "hidden": hidden, "steps": steps, "restarts": 1}
grid = sweep(
    {(k, c): at_profile(convolution(k, c, **small), profile) for k in kernels for c in channels},
    axes=["kernel", "channels"],
    seeds=every_seed,
    result=result,
    name="kernels and channels",
    bound=BOUND,
)

# %% [markdown]
# ## The figure
#
# Training images with a reconstruction above SSIM 0.4, mean over seeds.


# %% tags=["hide-input"]
def table(metric):
    """Means over seeds as rows of channels, the most above."""
    return [[grid.mean(metric, (k, c)) for k in kernels] for c in reversed(channels)]


axes = {"row_label": "channels", "column_label": "kernel size"}
heat_map(table("good"), list(reversed(channels)), kernels, value_label="images above SSIM 0.4", **axes)

# %% [markdown]
# What the same candidates reach among as many held-out images:

# %% tags=["hide-input"]
heat_map(table("held_out_good"), list(reversed(channels)), kernels, value_label="held out above 0.4", **axes)

# %% [markdown]
# And without a fixed mark: the share of training images above the SSIM that 99 % of held-out images stay
# below.

# %% tags=["hide-input"]
heat_map(
    [[100 * value for value in row] for row in table("rate")],
    list(reversed(channels)),
    kernels,
    value_label="% at 1 % of held out",
    **axes,
)

# %% [markdown]
# The same along the kernel size, a line for each number of channels:

# %% tags=["hide-input"]
curves(
    [grid.series(f"{c} channels", keys=[(k, c) for k in kernels]) for c in channels],
    x_label="kernel size",
    y_label="images above SSIM 0.4",
    title=f"{samples} images, {hidden} neurons",
)

# %% [markdown]
# ## Where it collapses
#
# The count over all channels together, for each kernel size. A kernel size has collapsed when that count
# is at most a quarter of the smallest kernel's.

# %% tags=["hide-input"]
by_seed = {s: totals(grid, s) for s in every_seed}
by_kernel = {k: [counts[k] for counts in by_seed.values()] for k in kernels}
mean_totals = {k: sum(values) / len(values) for k, values in by_kernel.items()}
where = convolutions.collapse(mean_totals)
if where is not None:
    told = f"The first kernel size that has collapsed is **{where}**."
elif mean_totals[min(kernels)]:
    told = "No kernel size has collapsed."
else:
    told = f"Nothing comes back at kernel {min(kernels)}, so that there is nothing to collapse from."
areas = {k: fmean(grid.mean("area", (k, c)) for c in channels) for k in kernels}
listed = "; ".join(f"kernel {k}: {spread(values)} ({areas[k]:.2f})" for k, values in by_kernel.items())
Markdown(f"""Of {samples * len(channels)} images in {len(channels)} networks: {listed}. {told} In brackets the
mean area under the ROC of training against held-out images, which moves before any image passes a mark; 0.5
is chance.

In all {len(list(grid))} networks together {sum(p.good for p in grid)} training images pass, and
{sum(p.held_out_good for p in grid)} held-out ones.""")

# %% [markdown]
# ## What goes with the count?
#
# Candidates for a reason, each a number of a single network: how many features the convolution hands on
# for each pixel it reads; how many parameters there are for each unknown pixel, $p/(d\cdot n)$; the share
# of the images on the margin and the number of images that share the weights; the ranks, up to one per
# cent, of the kernels (how many numbers of a patch they see) and of the layer behind them (how many different
# sums of features it holds), and how many numbers the weights hold with these ranks for each unknown pixel;
# how well the true images satisfy the equation; how well the attack's candidates do. The rank
# correlation of each with the share above SSIM 0.4 and with the area under the ROC, over all networks of
# the grid, and with that area without the largest kernel, whose layer is a fully connected one and follows
# rules of its own:


# %% tags=["hide-input"]
def correlate(metric, largest=None):
    """By explanation, one rank correlation per seed, over kernels up to `largest`."""
    points = [p for p in grid if largest is None or p.experiment.kernel <= largest]
    found = [explained((p for p in points if p.experiment.seed == s), metric) for s in every_seed]
    return {name: [values[name] for values in found] for name in convolutions.EXPLANATIONS}


without = correlate("area", sorted(kernels)[-2])
columns = {
    "count": correlate("share"),
    "area": correlate("area"),
    "area, without the largest kernel": without,
}
for column, found in columns.items():
    for name, values in found.items():
        result.metric(f"correlation with the {column}: {name}", values)
strongest = max(without, key=lambda name: abs(sum(without[name])))
lines = ["| quantity | " + " | ".join(columns) + " |", "|" + "---|" * (1 + len(columns))]
for name in without:
    cells = [spread(found[name], "{:.2f}") for found in columns.values()]
    lines.append("| " + " | ".join([name, *cells]) + " |")
Markdown("\n".join(lines))


# %% tags=["hide-input"]
def against(name):
    """The area under the ROC against an explanation, a line for each number of channels."""
    lines = []
    for c in channels:
        cells = sorted((explain(name, grid[k, c][0]), (k, c)) for k in kernels)
        values = [grid.values("area", key) for _, key in cells]
        lines.append(Series(f"{c} channels", [x for x, _ in cells], values))
    return curves(lines, x_label=name, y_label="area under the ROC", log_x=True)


against("features per pixel")

# %% tags=["hide-input"]
against("parameters per unknown")

# %% tags=["hide-input"]
against("numbers held per unknown")

# %% tags=["hide-input"]
lacking = [k for k in kernels if all(explain("features per pixel", grid[k, c][0]) < 1 for c in channels)]
fewer = f"kernel sizes {', '.join(map(str, lacking))}" if lacking else "no kernel size"
told = f"Without the largest kernel, *{strongest}* goes with the area most closely, at"
told += f" {spread(without[strongest], '{:.2f}')}."
collapsed = "There is no collapse" if where is None else f"The collapse begins at kernel {where}"
Markdown(f"""{told} {collapsed}; the convolution hands on fewer features than it reads pixels, whatever the
number of channels, at {fewer}. A rank correlation over a grid in which all of these move together names a
suspect, not a cause.""")

# %% [markdown]
# ## Does the scaling hold?
#
# The column at full size, beside the same column of the small grid.

# %%
full = {"images": full_samples, "hidden": full_hidden, "steps": full_steps, "restarts": 1}
full["train_steps"] = full_train_steps
cells = {k: at_profile(convolution(k, full_channels, **full), profile) for k in full_kernels}
# Run here, so that the sweep adds no control that costs an hour of attacks of its own.
outcomes = [run(replace(cell, seed=seed), bound=BOUND) for cell in cells.values()]
for outcome in outcomes:
    outcome.record(result)
column = sweep(
    cells,
    axes=["kernel"],
    seeds=[seed],
    result=result,
    name="full size",
    earlier=[point(outcome) for outcome in outcomes],
)
Markdown(column.markdown("train_error", "test_error", "residual", "parameters"))

# %% tags=["hide-input"]
same = [(k, full_channels) for k in full_kernels]
pair = [Series(f"{samples} images", full_kernels, [grid.values("share", key) for key in same])]
pair.append(Series(f"{full_samples} images", full_kernels, [column.values("share", k) for k in full_kernels]))
curves(pair, x_label="kernel size", y_label="share above SSIM 0.4", title=f"{full_channels} channels")

# %% tags=["hide-input"]
agreement = trend([grid.mean("share", key) for key in same], [column.mean("share", k) for k in full_kernels])
result.metric("agreement_of_sizes", agreement)
Markdown(f"""Over the kernel sizes of this column, the rank correlation between the shares at the two sizes
is {agreement:.2f} (0 also where one of them does not move). At full size
{sum(p.good for p in column)} training images pass in {len(full_kernels)} networks, and
{sum(p.held_out_good for p in column)} held-out ones.""")

# %% [markdown]
# ## What the best and the smallest kernel give back

# %% tags=["hide-input"]
top = grid.best("good")
best = run(grid[top][0].experiment, bound=convolutions.BOUND)
title = f"kernel {top[0]}, {top[1]} channels"
gallery(best.controls.attack, best.task.x, best.task.mean, count=10, title=title)

# %% tags=["hide-input"]
first = (min(kernels), max(channels))
least = run(grid[first][0].experiment, bound=convolutions.BOUND)
title = f"kernel {first[0]}, {first[1]} channels"
gallery(least.controls.attack, least.task.x, least.task.mean, count=10, title=title)

# %% [markdown]
# ## Every cell

# %% tags=["hide-input"]
Markdown(grid.markdown("train_error", "test_error", "support", "residual", "parameters"))

# %% [markdown]
# ## Verdicts
#
# Where the smallest kernel gives nothing back, the ratio of the middle to it counts as one: from nothing,
# nothing can fall.

# %% tags=["hide-input"]
result.claim(
    "B15-channels",
    channel_trend=[convolutions.channel_trend(grid, s) for s in every_seed],
    held_out_ratio=[held_out_ratio(p for p in grid if p.experiment.seed == s) for s in every_seed],
)
result.claim("B15-middle-kernels", middle_ratio=[convolutions.middle_ratio(c) for c in by_seed.values()])
result.claim("B15-full-kernel", full_ratio=[convolutions.full_ratio(c) for c in by_seed.values()])
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
if profile == "smoke":  # at this size only kernels as large as the image give anything back
    print(check_reconstructions([*column[max(full_kernels)], *grid[max(kernels), max(channels)]]))
result.save()
Markdown(provenance_markdown(result.to_dict()))
