# %% [markdown]
# # How many images explain one network
#
# | Question | From how far away does a search still find the training images, and what does it find else? |
# |---|---|
# | Claim | Distance grows faster with noise in the bilevel form; random starts end in different minima |
# | Figure | Runkel et al. 2024: distance against the proportion of noise; many minima |
# | Expected | a steeper curve for bilevel than for KKT; nearly as many end points as starts |
# | Cost | about 5 minutes on 2 cores, no GPU |
# | Command | `papermill notebooks/uncertainty_landscape.py` |
# | Differs | 20 images; the hidden layer's ReLU is smooth; L-BFGS moves the images; exact retraining |

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # of the first network and of the first noise; repeats and starts count on from here
repeats: int = 2  # training sets of different images, with a network of each kind
skip: int = 100  # images of each class left out at the front: the settings were tried on those
per_class: int = 2  # training images of each class
widths: list = [0, 10, 50]  # hidden units of the networks; 0 is the affine one
noises: list = [0.0, 0.25, 0.5, 0.75, 1.0]  # proportions of noise in a start
starts: int = 8  # random starts, on the first training set
weight_decay: float = 0.1  # strength of the penalty ½·decay·‖θ‖²
steps: int = 100  # of each search over images
longer: int = 4  # times as many steps, to see whether longer searches give another answer

# %% tags=["hide-input"]
from IPython.display import Markdown, display

from reconlib.bilevel import FORMULATIONS, search
from reconlib.bilevel.given import given_networks
from reconlib.bilevel.landscape import EXPLAINED, RADIUS, minima, slope
from reconlib.bilevel.measures import judge_ending
from reconlib.bilevel.pictures import strips
from reconlib.bilevel.starts import mixture, noise, parts
from reconlib.plots import Series, curves
from reconlib.rates import proportion_interval
from reconlib.results import record
from reconlib.sweeps import spread
from reconlib.verdicts import claims_markdown, provenance_markdown

dataset, classes = "cifar10", 10
if profile == "smoke":
    dataset, classes, repeats, widths = "fashion_mnist_mini", 3, 1, [0, 4]
    skip, noises, starts, steps = 0, [0.0, 0.5, 1.0], 3, 40
if profile == "paper":
    repeats, per_class, widths, starts, steps = 5, 5, [0, 10, 50, 100], 50, 1000
parameters = {"seed": seed, "repeats": repeats, "skip": skip, "per_class": per_class, "widths": widths}
parameters |= {"noises": noises, "starts": starts, "weight_decay": weight_decay, "steps": steps}
result = record("uncertainty_landscape", profile, parameters | {"longer": longer})

# %% [markdown]
# ## The networks
#
# The chapter before this one began both formulations at a few chosen starts. Here the starts change by
# degrees, and then there are many of them. Each repeat has its own training images; for each there is an
# affine network and networks with one hidden layer. How many parameters there are for each unknown pixel
# says how much the weights can hold.

# %%
of_repeat = [
    parts(dataset, per_class=per_class, classes=classes, offset=skip + 3 * per_class * r)
    for r in range(repeats)
]
with result.stage("train"):
    given = [given_networks(images, widths, weight_decay, seed + r) for r, images in enumerate(of_repeat)]
names = list(given[0])
for images in of_repeat:
    result.data(images.task)
rows = "\n".join(f"| {g.name} | {g.equations_per_unknown:.2f} |" for g in given[0].values())
Markdown(f"| network | parameters for each unknown pixel |\n|---|---|\n{rows}")

# %% [markdown]
# ## From the truth to noise
#
# A start is the training images with a proportion of noise of the same contrast mixed in. From each, both
# formulations search on; all of them know the labels. A search that heals the damage ends at the training
# images whatever the proportion, and its curve stays at zero. A search that does nothing ends where it
# began: the line called *start*.

# %%
with result.stage("search, noise"):
    found = {
        (name, form, share, r): search(
            form, given[r][name].training, given[r][name].theta,
            mixture(of_repeat[r].x, noise(of_repeat[r], seed + r), 1 - share), steps=steps,
        )
        for name in names
        for form in FORMULATIONS
        for share in noises
        for r in range(repeats)
    }  # fmt: skip
ends = {key: judge_ending(f, of_repeat[key[3]]) for key, f in found.items()}


# %% tags=["hide-input"]
def along(name, form, measure):
    """For each proportion of noise the values of a measure over repeats."""
    return [[getattr(ends[name, form, s, r], measure) for r in range(repeats)] for s in noises]


for name in names:
    lines = [Series(form, noises, along(name, form, "to_truth")) for form in FORMULATIONS]
    lines.append(Series("start", noises, along(name, "kkt", "start_to_truth")))
    labels = {"x_label": "proportion of noise", "y_label": "distance to the truth, in contrasts"}
    display(curves(lines, title=name, **labels))

# %% [markdown]
# And how well the ends explain the weights: the distance between given and retrained parameters, relative
# to $\|\theta^*\|$.

# %% tags=["hide-input"]
lines = [
    Series(f"{name}, {form}", noises, along(name, form, "parameter_distance"))
    for name in names
    for form in FORMULATIONS
]
result.table(
    "noise",
    **dict(zip(("network", "form", "noise", "repeat"), zip(*ends, strict=True), strict=True)),
    **{measure: [getattr(e, measure) for e in ends.values()] for measure in vars(next(iter(ends.values())))},
)
curves(lines, x_label="proportion of noise", y_label="parameter distance")

# %% tags=["hide-input"]
slopes = {
    (name, form): [slope(noises, [ends[name, form, s, r].to_truth for s in noises]) for r in range(repeats)]
    for name in names
    for form in FORMULATIONS
}
ratios = [b / k for name in names for b, k in zip(slopes[name, "bilevel"], slopes[name, "kkt"], strict=True)]
rows = "\n".join(
    f"| {name} | {' | '.join(spread(slopes[name, form], '{:.2f}') for form in FORMULATIONS)} |"
    for name in names
)
Markdown(f"""| slope of the distance to the truth | {" | ".join(FORMULATIONS)} |
|---|---|---|
{rows}

Over all networks the slope in the bilevel form is **{spread(ratios, "{:.2f}")}** times that in the KKT
form.""")

# %% [markdown]
# Were the searches too short to tell? The first training set again, from the start with the most noise,
# with more steps for both forms:

# %% tags=["hide-input"]
most = max(noises)
begin = mixture(of_repeat[0].x, noise(of_repeat[0], seed), 1 - most)
with result.stage("search, longer"):
    further = {
        (name, form): search(form, g.training, g.theta, begin, steps=longer * steps)
        for name, g in given[0].items()
        for form in FORMULATIONS
    }
last = {key: judge_ending(f, of_repeat[0]) for key, f in further.items()}
lines = ["| network | form | to the truth | longer | parameter distance | longer |", "|" + "---|" * 6]
for (name, form), end in last.items():
    first = ends[name, form, most, 0]
    numbers = (first.to_truth, end.to_truth, first.parameter_distance, end.parameter_distance)
    lines.append(f"| {name} | {form} | {' | '.join(f'{value:.2f}' for value in numbers)} |")
settled = {name: last[name, "bilevel"].to_truth / last[name, "kkt"].to_truth for name in names}
for name, value in settled.items():
    result.metric(f"bilevel over KKT, longer search: {name}", value)
table = "\n".join(lines)
told = ", ".join(f"{value:.2f} ({name})" for name, value in settled.items())
Markdown(f"""{table}

After {longer} times as many steps the distance to the truth in the bilevel form is, relative to the KKT
form, {told}. A network for which this is below one speaks against the claim; where the KKT form's
parameter distance is large, its search has stopped at images that do not explain the weights at all.""")

# %% [markdown]
# ## Many random starts
#
# On the first training set, searches from noise alone, each from its own. Two ends are the same when every
# image of one lies close to an image of the other. As a control, starts that differ just as they do but lie
# close to the truth: if the ends did not count as the same there, the count of minima would mean nothing.

# %%
images = of_repeat[0]
drawn = [noise(images, seed + 1000 + k) for k in range(starts)]
close = [mixture(images.x, n, 0.99) for n in drawn[:2]]
with result.stage("search, random starts"):
    many, control = (
        {
            (name, form): [search(form, g.training, g.theta, begin, steps=steps) for begin in begins]
            for name, g in given[0].items()
            for form in FORMULATIONS
        }
        for begins in (drawn, close)
    )
counts = {key: minima(searches, images) for key, searches in many.items()}
near = {key: minima(searches, images) for key, searches in control.items()}

# %% tags=["hide-input"]
rows = "\n".join(
    f"| {name} | {form} | {c.distinct} of {c.starts} | {near[name, form].distinct} of "
    f"{near[name, form].starts} | {c.converged} | {c.distinct_converged} | {c.members} of {c.images} | "
    f"{c.chance} |"
    for (name, form), c in counts.items()
)
head = "| network | form | distinct ends | near the truth | converged | distinct | members | control |"
for key, c in counts.items():
    result.control(", ".join(key), {"random": c.to_dict(), "near the truth": near[key].to_dict()})
Markdown(head + "\n" + "|---" * 8 + "|\n" + rows)

# %% [markdown]
# *Distinct ends*: over the random starts. *Near the truth*: the same count for the control. *Converged*:
# random searches whose own distance, in parameters or in the equation, fell below a tenth of
# $\|\theta^*\|$, and how many of their ends are *distinct*; the others may still have been moving.
# *Members*: of the images of the converged searches, how many pass SSIM 0.4 with their nearest training
# image. *Control*: how many do with a part of the data set that no network has seen.

# %% tags=["hide-input"]
first = names[0]
picked = {"training image": images.x}
picked |= {f"end of start {k + 1}": f.images for k, f in enumerate(many[first, "bilevel"][:3])}
title = f"{first}, bilevel: the same images asked for, from three random starts"
strips(picked, images.mean, title=title, alt=f"{title}. Rows: {', '.join(picked)}.")

# %% tags=["hide-input"]
summed = ("converged", "distinct_converged", "images", "members", "chance")
total = {name: sum(getattr(c, name) for c in counts.values()) for name in summed}
low, high = proportion_interval(total["members"], total["images"])
alike = sum(c.distinct for c in near.values()) / len(near)
share = sum(c.distinct_share for c in counts.values()) / len(counts)
apart = total["distinct_converged"] > len(counts) and total["members"] < total["images"] / 2
told = "Which set of images an adversary ends with is decided by where the search began."
if not apart:
    told = "The weights decide more than the start does."
Markdown(f"""## Reading

Of {len(counts) * starts} searches from noise {total["converged"]} explain the weights to within
{EXPLAINED:.0%}, by {total["distinct_converged"]} different sets of images. Of their {total["images"]} images
{total["members"]} are members ({low:.1%} to {high:.1%} with 95 % confidence; control: {total["chance"]}).
Over all random starts there are {share:.0%} as many different ends as starts, at a radius of {RADIUS:g}
contrasts; two starts close to the truth have {alike:.1f} on average. {told}""")

# %% [markdown]
# ## Verdicts

# %% tags=["hide-input"]
result.claim("R-noise-proportion", slope_ratio=ratios)
result.claim("R-minima", distinct_share=[c.distinct_share for c in counts.values()])
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
if profile == "smoke":
    at_truth = [ends[name, form, noises[0], 0].to_truth for name in names for form in FORMULATIONS]
    assert max(at_truth) < 0.01, "a search left the training images"
    assert all(c.distinct == 1 for c in near.values()), "starts beside the truth ended apart"
result.save()
Markdown(provenance_markdown(result.to_dict()))
