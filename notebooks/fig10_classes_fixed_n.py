# %% [markdown]
# # The number of classes, at the same number of images
#
# | Question | Is it the classes that leak, or the images? |
# |---|---|
# | Claim | With 500 images ten classes give more than six times the count of two (Buzaglo et al. 2023) |
# | Figure | 10 |
# | Expected | a count that rises with the classes, six times from 2 to 10, and a higher SSIM |
# | Cost | about 50 minutes on 2 cores, no GPU; 21 of them are shared with figures 1, 2 and 8 |
# | Command | `papermill notebooks/fig10_classes_fixed_n.py` |
# | Differs from the paper | faster training and attack, three seeds, controls: see below |
#
# In detail:
#
# - Two classes are vehicles against animals with one output and the logistic loss; three, four and five
#   classes are the first ones of CIFAR-10 with as many outputs and cross-entropy. Three classes have 501
#   images.
# - With several classes training ends at the published loss, with two far past it, at the limit of gradient
#   flow. A few restarts of a shorter attack are pooled.
# - Added: three seeds with their range, held-out images as a control with the rate at a fixed share of
#   them, and the two-class network as the paper trained it.

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # the first of the seeds of networks and attacks
seeds: int = 3  # networks with each number of classes
samples: int = 500  # training images of every network
classes: list = [2, 3, 4, 5, 10]  # numbers of classes; 2 is vehicles against animals

# %% tags=["hide-input"]
from IPython.display import Markdown

from reconlib.catalogue import claim
from reconlib.claims import ratio, trend
from reconlib.experiments import Experiment
from reconlib.plots import curves, scatter
from reconlib.profiles import at_profile
from reconlib.results import record
from reconlib.sweeps import check_reconstructions, held_out_ratio, spread, sweep
from reconlib.verdicts import claims_markdown, provenance_markdown

if profile == "smoke":
    samples, seeds, classes = 20, 2, [2, 10]
parameters = {"seed": seed, "seeds": seeds, "samples": samples, "classes": classes}
result = record("fig10_classes_fixed_n", profile, parameters)

# %% [markdown]
# ## The claim
#
# Figure 2 compares two networks that differ in more than the number of their classes. Here that number
# goes up step by step while the number of images stays the same, so that fewer and fewer images share a
# class. The paper finds that the count goes up with it.
#
# ## The experiment


# %%
def with_classes(count):
    """The experiment for so many classes, with about `samples` images."""
    if count == 2:
        return at_profile(Experiment(per_class=samples // 2), profile)
    return at_profile(Experiment(task="multiclass", classes=count, per_class=round(samples / count)), profile)


ends = (min(classes), max(classes))
grid = sweep(
    {count: with_classes(count) for count in classes},
    axes=["classes"],
    seeds=range(seed, seed + seeds),
    result=result,
    name="classes",
)
Markdown(grid.markdown("top30", "test_error", "support"))

# %% [markdown]
# ## The figure
#
# Mean over seeds, with bars from the lowest to the highest.

# %% tags=["hide-input"]
curves(
    [grid.series("training images"), grid.series("held-out images", "held_out_good")],
    x_label="classes",
    y_label="images above SSIM 0.4",
    title=f"{samples} images",
)

# %% tags=["hide-input"]
curves(
    [grid.series("30 best", "top30"), grid.series("best", "best")],
    x_label="classes",
    y_label="SSIM",
    title=f"Quality of the best, {samples} images",
)

# %% [markdown]
# Each image by its distance from the boundary and its SSIM, first seed:

# %% tags=["hide-input"]
scatter([grid[count][0].panel(f"{count} classes") for count in classes])

# %% tags=["hide-input"]
few, many = (grid[count] for count in ends)
times = [ratio(a.good, b.good) for a, b in zip(many, few, strict=True)]
order = trend(classes, [grid.mean("good", count) for count in classes])
support = trend([grid.mean("support", c) for c in classes], [grid.mean("good", c) for c in classes])
result.metric("count_trend", order)
result.metric("support_trend", support)
Markdown(f"""From {ends[0]} to {ends[1]} classes the count goes from
**{spread(grid.values("good", ends[0]))}** to **{spread(grid.values("good", ends[1]))}** of {samples}
({spread(times, "{:.1f}")} times; the paper: {claim("B10-six-times").expected}), and the mean SSIM of the 30
best from {spread(grid.values("top30", ends[0]), "{:.2f}")} to
{spread(grid.values("top30", ends[1]), "{:.2f}")}. The rank correlation of the count with the number of
classes is {order:.2f}, and with the number of samples that share the weights {support:.2f}. Held-out images
that pass, at the two ends: {spread(grid.values("held_out_good", ends[0]))} and
{spread(grid.values("held_out_good", ends[1]))}; training images above the SSIM that 99 % of held-out images
stay below: {spread(grid.values("rate", ends[0]), "{:.1%}")} and
{spread(grid.values("rate", ends[1]), "{:.1%}")}.""")

# %% [markdown]
# ## How far the two-class network was trained
#
# A ratio of counts says as much about the weaker network as about the stronger one. The paper trains its
# two-class network down to a loss of about 4e-6, where much of the random start is still in the weights.
# The same here: gradient flow until that loss, and an attack that leaves out the second layer, which
# mainly is its start.

# %%
early = Experiment(
    per_class=samples // 2,
    training={"trainer": "flow", "target_log_loss": -12.4},
    attack={"layer_weights": (1.0, 0.0, 1.0)},
)
stopped = sweep(
    {"loss 4e-6": at_profile(early, profile)},
    axes=["two classes, trained to"],
    seeds=range(seed, seed + seeds),
    result=result,
    name="two classes as published",
)
Markdown(stopped.markdown("top30", "test_error", "support"))

# %% tags=["hide-input"]
against = [ratio(a.good, b.good) for a, b in zip(many, stopped["loss 4e-6"], strict=True)]
left = [max(p.certificate.start_share) for p in stopped["loss 4e-6"]]
result.metric("ratio_to_published_training", against)
Markdown(f"""A layer of these networks still is its start by {spread(left, "{:.0%}")} of its squared norm.
Against them {ends[1]} classes give **{spread(against, "{:.1f}")}** times as many good reconstructions,
against the two-class networks above {spread(times, "{:.1f}")} times.""")

# %% [markdown]
# ## Verdicts

# %% tags=["hide-input"]
result.claim(
    "B10-six-times",
    count_ratio=times,
    held_out_ratio=[held_out_ratio(both) for both in zip(few, many, strict=True)],
)
result.claim("B10-quality", ssim_gain=[a.top(30) - b.top(30) for a, b in zip(many, few, strict=True)])
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
if profile == "smoke":
    print(check_reconstructions(few), check_reconstructions(many), sep="\n")
result.save()
Markdown(provenance_markdown(result.to_dict()))
