# %% [markdown]
# # 5,000 images of 100 classes
#
# | Question | Do training images still come back when there are thousands of them? |
# |---|---|
# | Claim | A few dozen of 5,000 come back from a wide network on CIFAR-100 (Buzaglo et al. 2023) |
# | Figure | 17 |
# | Expected | at least 24 images above SSIM 0.4 at width 10,000 |
# | Cost | two to three hours on 2 cores, no GPU; resumable |
# | Command | `papermill notebooks/fig17_cifar100_5000.py` |
# | Differs from the paper | a fifth of its width, a shorter attack, controls: see below |
#
# In detail:
#
# - The data are the paper's: the first 50 images of each of the 100 classes. The network has three layers
#   like the paper's, of width 2,000 instead of 10,000 (the profile `paper` has that); the paper believes
#   that smaller ones would do.
# - Training begins with mini-batches, as in the paper, and follows gradient flow on the full batch once
#   the images are separated.
# - There are more images than an image has numbers, so the first layer's row space is everything that
#   its width allows, and no help. The attack searches in its 300 strongest directions, as with ten classes:
#   they leave out what is mostly grain. A search in pixels, as in the paper, stands beside it; it came
#   first, on these images, so that the choice between the two was not made blindly.
# - One run of a short attack, two candidates for each image, passed through the network in chunks. One
#   network: a verdict on one seed has no interval.
# - Added: held-out images as a control, the rate at a fixed share of them, differences of neurons, which
#   need no search and do not count for the verdict, and smaller training sets.

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # the first of the seeds of networks and attacks
seeds: int = 1  # networks trained and attacked
classes: int = 100  # of CIFAR-100, in their order
per_class: int = 50  # training images of each class
width: int = 2000  # neurons in each of the two hidden layers
weight_decay: float = 0.0  # of all parameters
train_steps: int = 3000  # of training at most; it ends earlier once at or below the published loss
smaller: list = [5, 10]  # images of each class in smaller training sets, to see where it stops
steps: int = 400  # of each attack
restarts: int = 1  # attacks whose candidates are pooled
directions: int = 300  # of the first layer in which the attack searches; the profile paper takes pixels
chunk: int = 2000  # candidates that go through the network at once: bounds the memory
batch: int = 100  # images in a step of SGD, with which training begins (the paper does not say)
sgd_steps: int = 500_000  # profile paper: steps of SGD (the paper does not say)

# %% tags=["hide-input"]
from dataclasses import replace

from IPython.display import Markdown

from reconlib.experiments import Experiment, run
from reconlib.galleries import gallery, pairs
from reconlib.matching import GOOD
from reconlib.plots import Series, curves, distributions, scatter
from reconlib.profiles import at_profile
from reconlib.results import record
from reconlib.sweeps import check_reconstructions, held_out_ratio, point, spread, sweep
from reconlib.verdicts import claims_markdown, provenance_markdown

if profile == "smoke":
    classes, per_class, width, seeds, chunk, smaller = 10, 4, 200, 2, 30, [2]
if profile == "paper":
    width = 10_000
parameters = {"seed": seed, "seeds": seeds, "classes": classes, "per_class": per_class, "width": width}
parameters |= {"weight_decay": weight_decay, "train_steps": train_steps, "steps": steps}
parameters |= {
    "smaller": smaller,
    "restarts": restarts,
    "chunk": chunk,
    "batch": batch,
    "sgd_steps": sgd_steps,
}
result = record("fig17_cifar100_5000", profile, parameters)

# %% [markdown]
# ## The claim
#
# The other figures have a few hundred images. With $n$ of them in $d$ pixels there are $d\cdot n$ unknowns,
# and the equation has as many rows as the network has parameters. The paper takes the number of images to
# 5,000, in 100 classes, with layers of 10,000 neurons, and still finds a few dozen.
#
# Something else changes on the way. As long as there are fewer images than pixels, the rows of the first
# layer lie in the span of the images and give that span away; the attack of the other figures searches
# only there. Once there are more images than pixels the span is the whole space, and what a search in the
# strongest directions leaves out is a guess about images, not knowledge of the span.
#
# ## The experiment

# %%
experiment = Experiment(
    task="multiclass",
    dataset="cifar100",
    classes=classes,
    per_class=per_class,
    hidden=(width, width),
    weight_decay=weight_decay,
    training={"steps": train_steps, "batch": batch},
    attack={"rank": directions, "steps": steps, "restarts": restarts, "chunk": chunk},
)
chosen = at_profile(experiment, profile)
if profile == "paper":
    sgd = {"trainer": "sgd", "batch": batch, "steps": sgd_steps}
    chosen = replace(chosen, training=sgd, attack={**chosen.attack, "chunk": chunk})

# %%
# Run here, so that the sweep adds no control that costs hours of attacks of its own.
outcomes = [run(replace(chosen, seed=s)) for s in range(seed, seed + seeds)]
for outcome in outcomes:
    outcome.record(result)
grid = sweep(
    {width: chosen},
    axes=["width"],
    seeds=range(seed, seed + seeds),
    result=result,
    name="networks",
    earlier=[point(outcome) for outcome in outcomes],
)
points, shown = grid[width], outcomes[0]
Markdown(grid.markdown("train_error", "test_error", "support", "residual", "parameters"))

# %% tags=["hide-input"]
pixels, n = shown.task.mean.numel(), points[0].n
unknowns = points[0].parameters / (pixels * n)
result.metric("parameters_per_unknown", unknowns)
span = "exceeds" if n > pixels else "does not exceed"
certificate = shown.trained.certificate
Markdown(f"""Training ended at a loss of {certificate.train_loss:.2g} ({shown.trained.stopped}). The number of
images, {n:,}, {span} the number of values in an image, {pixels:,}: their span has
at most {min(n, pixels):,} dimensions. The first layer has {width:,} rows. There are
{points[0].parameters:,} parameters, {unknowns:.2f} for each value to be found, and
{len(shown.found.candidates):,} candidates from {shown.found.settings.restarts} restart(s).""")

# %% [markdown]
# ## The figure
#
# The best pairs of the first network. Red: training images; blue: what the weights gave back; beneath,
# their SSIM.

# %% tags=["hide-input"]
name = f"{width:,} neurons per layer, {n:,} images"
gallery(shown.controls.attack, shown.task.x, shown.task.mean, count=min(50, n), title=name)

# %% [markdown]
# ## Quality against the distance from the boundary
#
# The red line is the margin, the broken one the papers' mark of a good reconstruction.

# %% tags=["hide-input"]
scatter(points[0].panel(name))

# %% [markdown]
# ## What chance gives
#
# The same candidates, judged against as many images that the network was not trained on. With thousands
# of images to be near to, chance has thousands of tries.

# %% tags=["hide-input"]
noise, rows = (shown.controls.scores(name) for name in ("noise", "first_layer"))
distributions(
    {"training images": points[0].ssim, "held out": points[0].held_out_ssim, "noise": noise, "rows": rows}
)

# %% tags=["hide-input"]
by_class = [len(set(shown.task.y[p.ssim > GOOD].tolist())) for p in points]
result.metric("classes_with_good", by_class)
above = {name: int((scores > GOOD).sum()) for name, scores in (("noise", noise), ("rows", rows))}
Markdown(f"""**{spread(grid.values("good", width))}** of {n:,} images come back above SSIM 0.4, from
{spread(by_class)} of {classes} classes, the best at {spread(grid.values("best", width), "{:.2f}")}. Held-out
images that pass with the same candidates: {spread(grid.values("held_out_good", width))}. At the SSIM that at
most 1 % of those reach, {spread(grid.values("rate", width), "{:.1%}")} of the training images pass. With
noise for candidates {above["noise"]} training images pass, and with the rows of the first layer
{above["rows"]}: among thousands of images there are plain ones that any blur resembles, so that a count of a
few dozen above this mark is {"no more" if above["noise"] >= 36 else "more"} than chance gives.
Differences of its neurons, without a search, give
{spread(grid.values("differences", width))} training images and
{spread(grid.values("differences_held_out", width))} held-out ones, the best at
{spread(grid.values("differences_best", width), "{:.2f}")}.""")

# %% [markdown]
# Noise is a floor for candidates of its own kind, with the mean image added; the floor of this attack is its
# own count among held-out images. The best of those: what a good match looks like when it can only be chance.

# %% tags=["hide-input"]
held_out = shown.controls.controls["held_out"]
nearest = held_out.ranking()[:10]
pairs(
    (shown.task.x_held_out + shown.task.mean)[nearest].clamp(0, 1),
    held_out.reconstruction[nearest],
    [f"{float(held_out.ssim[i]):.2f}" for i in nearest],
    title="held out",
    alt="The ten held-out images with the highest SSIM, each above what the candidates made of it.",
)

# %% [markdown]
# ## The same search in pixels

# %%
in_pixels = run(replace(chosen, seed=seed, attack={**chosen.attack, "rank": None}))
in_pixels.record(result)
spaces = sweep(
    {f"{directions} directions": replace(chosen, seed=seed), "pixels": in_pixels.experiment},
    axes=["search in"],
    seeds=[seed],
    result=result,
    name="search in",
    earlier=[points[0], point(in_pixels)],
)
Markdown(spaces.markdown("top20", "area", "residual"))

# %% [markdown]
# ## Where it stops
#
# The same network and the same attack with fewer images of every class: more parameters for each value that
# is to be found.

# %%
fewer = {count: replace(experiment, per_class=count) for count in smaller}
fewer = {count: replace(at_profile(cell, profile), seed=seed) for count, cell in fewer.items()}
small = [run(cell) for cell in fewer.values()]
for outcome in small:
    outcome.record(result)
sizes = sweep(
    fewer | {per_class: replace(chosen, seed=seed)},
    axes=["images per class"],
    seeds=[seed],
    result=result,
    name="images per class",
    earlier=[*(point(outcome) for outcome in small), points[0]],
)
Markdown(sizes.markdown("share", "area", "residual"))

# %% tags=["hide-input"]
per_unknown = {key: sizes[key][0].parameters / (pixels * sizes[key][0].n) for (key,) in sizes.points}
lines = [
    Series("training images", list(per_unknown.values()), [sizes.values("share", k) for k in per_unknown])
]
shares = [[p.held_out_good / p.n for p in sizes[k]] for k in per_unknown]
lines.append(Series("held out", list(per_unknown.values()), shares))
curves(
    lines,
    x_label="parameters for each value to be found, p/(d·n)",
    y_label="share above SSIM 0.4",
    title=f"Width {width:,}, {classes} classes",
)

# %% tags=["hide-input"]
told = "; ".join(
    f"{sizes[k][0].good} of {sizes[k][0].n:,} at {value:.2f} parameters for each value"
    for k, value in per_unknown.items()
)
Markdown(f"""Above SSIM 0.4: {told}. The paper's network of width 10,000 has
{(10_000 * (pixels + 1) + 10_000 * (10_000 + 100)) / (pixels * 5_000):.1f} on its 5,000 images.""")

# %% [markdown]
# ## Verdict

# %% tags=["hide-input"]
result.claim(
    "B17-few-dozen",
    good=grid.values("good", width),
    held_out_ratio=[held_out_ratio([p]) for p in points],
)
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
if profile == "smoke":
    print(check_reconstructions(points))
result.save()
Markdown(provenance_markdown(result.to_dict()))
