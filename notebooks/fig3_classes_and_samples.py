# %% [markdown]
# # Classes and samples per class
#
# | Question | What raises the count: more classes, or more images? |
# |---|---|
# | Claim | More classes give more; the number of images of a class hardly matters (Buzaglo et al. 2023) |
# | Figure | 3 |
# | Expected | counts that rise with the classes, and stay within 1.5 times from 50 images per class on |
# | Cost | about 45 minutes on 2 cores, no GPU |
# | Command | `papermill notebooks/fig3_classes_and_samples.py` |
# | Differs from the paper | at most 100 images per class, faster training and attack, controls: see below |
#
# In detail:
#
# - Two classes are vehicles against animals with one output and the logistic loss; three and more are the
#   first classes of CIFAR-10 with cross-entropy.
# - With several classes training ends at the published loss, with two far past it, at the limit of gradient
#   flow; one restart of a shorter attack, with at least 100 candidates. Counts of one restart are lower
#   than those of figure 10, which pools several.
# - Added: three seeds, held-out images as a control, and the rate at a fixed share of them.

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # the first of the seeds of networks and attacks
seeds: int = 3  # networks of each kind
classes: list = [2, 3, 4, 5, 10]  # numbers of classes; 2 is vehicles against animals
per_class: list = [10, 50, 100]  # training images of each class
settled: int = 50  # images per class from which on counts are compared

# %% tags=["hide-input"]
from dataclasses import replace
from statistics import fmean, median

from IPython.display import Markdown

from reconlib.claims import ratio, trend
from reconlib.experiments import Experiment, run
from reconlib.galleries import gallery
from reconlib.plots import curves, heat_map, scatter
from reconlib.profiles import at_profile
from reconlib.results import record
from reconlib.sweeps import check_reconstructions, held_out_ratio, spread, sweep
from reconlib.verdicts import claims_markdown, provenance_markdown

if profile == "smoke":
    seeds, classes, per_class, settled = 1, [2, 10], [3, 6], 3
parameters = {"seed": seed, "seeds": seeds, "classes": classes, "per_class": per_class, "settled": settled}
result = record("fig3_classes_and_samples", profile, parameters)

# %% [markdown]
# ## The claim
#
# An image takes part in the weights if it lies on the margin, and a boundary can only be supported by so
# many images. More images of the same classes add images beyond the margin; more classes add boundaries.
# So the paper expects, and finds, a count that grows with the classes and not with the images.
#
# ## The experiment


# %%
def of_size(count, each):
    """The experiment with `count` classes and `each` images of a class."""
    kind = {"task": "multiclass", "classes": count} if count > 2 else {}
    attack = {"restarts": 1, "candidates": max(2 * count * each, 100)}
    return at_profile(Experiment(per_class=each, attack=attack, **kind), profile)


grid = sweep(
    {(count, each): of_size(count, each) for count in classes for each in per_class},
    axes=["classes", "per class"],
    seeds=range(seed, seed + seeds),
    result=result,
    name="sizes",
)

# %% [markdown]
# ## The figure
#
# Images above SSIM 0.4, mean over seeds.


# %% tags=["hide-input"]
def table(metric):
    """Means over seeds as rows of classes."""
    return [[grid.mean(metric, (count, each)) for each in per_class] for count in classes]


axes = {"row_label": "classes", "column_label": "images per class"}
heat_map(table("good"), classes, per_class, value_label="images above SSIM 0.4", form="{:.1f}", **axes)

# %% tags=["hide-input"]
curves(
    [
        grid.series(f"{each} images per class", keys=[(count, each) for count in classes])
        for each in per_class
    ],
    x_label="classes",
    y_label="images above SSIM 0.4",
)

# %% [markdown]
# What the same candidates reach among as many held-out images; and the share of training images above the
# SSIM that 99 % of the held-out ones stay below.

# %% tags=["hide-input"]
heat_map(table("held_out_good"), classes, per_class, value_label="held out above 0.4", form="{:.1f}", **axes)

# %% tags=["hide-input"]
heat_map(
    [[100 * value for value in row] for row in table("rate")],
    classes,
    per_class,
    value_label="% at 1 % of held out",
    **axes,
)

# %% [markdown]
# ## Every network: SSIM against the distance from the boundary
#
# First seed; classes from top to bottom, images per class from left to right.

# %% tags=["hide-input"]
scatter(
    [
        grid[count, each][0].panel(f"{count} classes, {each} per class")
        for count in classes
        for each in per_class
    ],
    columns=len(per_class),
)

# %% tags=["hide-input"]
every_seed = range(seed, seed + seeds)
along = {each: grid.by_seed("good", [(count, each) for count in classes]) for each in per_class}
class_trends = [fmean(trend(classes, rows[s]) for rows in along.values() if s in rows) for s in every_seed]
late = [each for each in per_class if each >= settled]
across = {count: grid.by_seed("good", [(count, each) for each in late]) for count in classes}
spreads = [
    median(ratio(max(rows[s]), min(rows[s])) for rows in across.values()) for s in range(seed, seed + seeds)
]
first, last = (classes[0], max(per_class)), (classes[-1], max(per_class))
Markdown(f"""With {max(per_class)} images per class, {classes[0]} classes give
**{spread(grid.values("good", first))}** good reconstructions and {classes[-1]} classes
**{spread(grid.values("good", last))}**. The rank correlation of the count with the number of classes,
averaged over the numbers of images, is {spread(class_trends, "{:.2f}")}. From {settled} images per class
on, the largest count of a number of classes is {spread(spreads, "{:.2f}")} times the smallest (median over
classes), while the number of images grows {max(late) / min(late):g} times. In all {sum(1 for _ in grid)}
networks together {sum(p.held_out_good for p in grid)} held-out images pass.""")

# %% [markdown]
# ## The ten best of the two extremes
#
# The largest set with the fewest classes, and with the most.

# %% tags=["hide-input"]
few = run(replace(of_size(*first), seed=seed))
gallery(few.controls.attack, few.task.x, few.task.mean, count=10, title=f"{first[0]} classes")

# %% tags=["hide-input"]
many = run(replace(of_size(*last), seed=seed))
gallery(many.controls.attack, many.task.x, many.task.mean, count=10, title=f"{last[0]} classes")

# %% [markdown]
# ## Every cell

# %% tags=["hide-input"]
Markdown(grid.markdown("test_error", "support"))

# %% [markdown]
# ## Verdicts

# %% tags=["hide-input"]
of_seed = [[p for p in grid if p.experiment.seed == s] for s in every_seed]
result.claim(
    "B3-classes",
    class_trend=class_trends,
    held_out_ratio=[held_out_ratio(points) for points in of_seed],
)
result.claim("B3-samples", count_spread=spreads)
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
if profile == "smoke":
    print(check_reconstructions(p for p in grid if p.experiment.task == "multiclass"))
result.save()
Markdown(provenance_markdown(result.to_dict()))
