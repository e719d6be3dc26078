# %% [markdown]
# # What an adversary can tell
#
# | Question | Without the training set, can members be told from images that only look the part? |
# |---|---|
# | Claim | No: small networks give an adversary no certainty about membership (Runkel et al. 2024) |
# | Figure | Runkel et al. 2024: members and look-alikes; the three-layer networks are ours |
# | Expected | an area under the ROC of at most 0.6 for the best score; one half is chance |
# | Cost | about 6 minutes on 2 cores, no GPU, after figure 2, which shares networks; 25 alone |
# | Command | `papermill notebooks/uncertainty_membership.py` |
# | Differs | scores and rates in place of examples; starts that are partly true; three-layer networks |

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # of the first network and of the first noise; repeats and searches count on from here
repeats: int = 6  # training sets of different images, with a network of each kind
skip: int = 100  # images of each class left out at the front: the settings were tried on those
per_class: int = 2  # training images of each class, for the small networks
hidden: int = 50  # units of the network with one hidden layer
searches: int = 3  # of each formulation on each network, pooled
truth: float = 0.75  # proportion of the image in a start; the rest is noise
weight_decay: float = 0.1  # strength of the penalty ½·decay·‖θ‖², for the small networks
steps: int = 100  # of each search over images
seeds: int = 3  # three-layer networks of each kind
samples: int = 500  # training images of each of those

# %% tags=["hide-input"]
from dataclasses import replace

from IPython.display import Markdown, display

from reconlib.bilevel import FORMULATIONS, search
from reconlib.bilevel.given import given_networks
from reconlib.bilevel.starts import parts
from reconlib.clusters import against_truth, cluster
from reconlib.experiments import Experiment, run
from reconlib.galleries import images as grid_of
from reconlib.membership import (
    BLIND,
    KNOWS_START,
    areas,
    best_area,
    best_rate,
    chance_area,
    join,
    mixed_starts,
    pool_attack,
    pool_searches,
    split,
)
from reconlib.plots import rate_curves
from reconlib.profiles import at_profile
from reconlib.rates import roc
from reconlib.results import record
from reconlib.sweeps import spread
from reconlib.verdicts import claims_markdown, provenance_markdown

dataset, classes = "cifar10", 10
if profile == "smoke":
    dataset, classes, repeats, hidden, searches, steps = "fashion_mnist_mini", 3, 1, 4, 3, 30
    skip, per_class, seeds, samples = 0, 4, 1, 20
if profile == "paper":
    repeats, per_class, hidden, searches, steps = 5, 5, 100, 10, 1000
parameters = {"seed": seed, "repeats": repeats, "skip": skip, "per_class": per_class, "hidden": hidden}
parameters |= {"truth": truth, "searches": searches, "weight_decay": weight_decay, "steps": steps}
result = record("uncertainty_membership", profile, parameters | {"seeds": seeds, "samples": samples})

# %% [markdown]
# ## Members and look-alikes
#
# An adversary has candidates that look like photographs, and wants to know which of them were trained on.
# What is there to go by?
#
# - **residual**: how well the search that a candidate came from explains the weights;
# - **multiplier**: how much weight the candidate has in $\theta = \sum_i\lambda_i\nabla\Phi(x_i)$;
# - **agreement**: how close other searches, from other starts, came to the same image.
#
# None of these needs the training set. To see what they are worth, the pool must hold both kinds. Each
# search here starts from images of which some, drawn by lot, are training images, and the others are images
# of the same classes that were not trained on, all with noise added. The searches differ in how many are
# true, so that a residual can say something. A *member* is a candidate that ends above SSIM 0.4 with a
# training image, a *look-alike* one that does with an image of the other part.

# %%
pools = {}
with result.stage("train and search"):
    for r in range(repeats):
        images = parts(dataset, per_class=per_class, classes=classes, offset=skip + 3 * per_class * r)
        result.data(images.task)
        shares = [(k + 1) / (searches + 1) for k in range(searches)]  # of true images, search by search
        begins = [mixed_starts(images, truth, t, seed + 100 * r + k) for k, t in enumerate(shares)]
        for name, g in given_networks(images, [0, hidden], weight_decay, seed + r).items():
            for form in FORMULATIONS:
                ended = [search(form, g.training, g.theta, begin, steps=steps) for begin in begins]
                pools.setdefault((name, form), []).append(pool_searches(ended, images))
small = {key: join(found) for key, found in pools.items()}

# %% tags=["hide-input"]
best = {key: best_area(pool) for key, pool in small.items()}
chance = {key: chance_area(pool) for key, pool in small.items()}
rows = "\n".join(
    f"| {name} | {form} | {pool.member.sum()} of {pool.began.sum()} | "
    f"{pool.look_alike.sum()} of {(~pool.began).sum()} | "
    + " | ".join(f"{area:.2f}" for area in areas(pool).values())
    + f" | {best[name, form]:.2f} | {chance[name, form]:.2f} |"
    for (name, form), pool in small.items()
)
head = f"| network | form | members | look-alikes | {' | '.join(BLIND)} | best | best by chance |"
Markdown(head + "\n" + "|---" * (6 + len(BLIND)) + "|\n" + rows)

# %% [markdown]
# *Members* and *look-alikes*: how many there are at the end, of how many starts of each kind. A search may
# wear an image down until it is like nothing, and what is left of it is out of the comparison; or it may
# turn another image into a training image, so that there can be more members than starts of their kind.
# Then the area under the ROC of each score: 1 if all members come before all look-alikes, one half if they
# are mixed, 0 if they come last. The *best* takes the score that serves the adversary most, read in
# whichever direction is better. The choice alone gains something, and *best by chance* says how much: the
# same number when lots decide which images count as trained on.


# %% tags=["hide-input"]
def shown(pool, names, title, look_alikes=True):
    """ROC of each score."""
    return rate_curves({n: roc(*split(pool, n, look_alikes)) for n in names}, title=title)


comparable = [key for key, pool in small.items() if pool.member.any() and pool.look_alike.any()]
hardest, easiest = min(comparable, key=best.get), max(comparable, key=best.get)
shown(small[hardest], BLIND, f"{', '.join(hardest)}: hardest to tell")

# %% tags=["hide-input"]
shown(small[easiest], BLIND, f"{', '.join(easiest)}: easiest to tell")

# %% [markdown]
# ## An adversary who knows the starts
#
# Whoever ran the searches knows where they began, and can ask two things more: how far a candidate **stayed**
# with its start, and how much **agreement was gained** on the way. Two searches that begin at pictures of one
# cat will agree on the cat; only what they agree on *beyond* their starts was told to them by the weights.

# %% tags=["hide-input"]
informed = {key: best_area(pool, KNOWS_START) for key, pool in small.items()}
informed_chance = {key: chance_area(pool, KNOWS_START) for key, pool in small.items()}
rows = "\n".join(
    f"| {name} | {form} | "
    + " | ".join(f"{area:.2f}" for area in areas(pool, KNOWS_START).values())
    + f" | {informed[name, form]:.2f} | {informed_chance[name, form]:.2f} |"
    for (name, form), pool in small.items()
)
head = f"| network | form | {' | '.join(KNOWS_START)} | best | best by chance |"
Markdown(head + "\n" + "|---" * (4 + len(KNOWS_START)) + "|\n" + rows)


# %% tags=["hide-input"]
def in_words(point):
    """A rate with its interval."""
    if point is None:
        return "one kind only"
    return "{:.0%} ({:.0%} to {:.0%})".format(point.true_positive_rate, *point.true_positive_interval)


for key, pool in small.items():
    numbers = {"best": best[key], "chance": chance[key]} | areas(pool, BLIND + KNOWS_START)
    numbers |= {"best, knows the starts": informed[key], "chance, knows the starts": informed_chance[key]}
    result.control(", ".join(key), numbers)
rows = "\n".join(
    f"| {', '.join(key)} | {in_words(best_rate(pool))} | {in_words(best_rate(pool, KNOWS_START))} |"
    for key, pool in small.items()
)
Markdown(f"""Members that pass where at most 5 % of the look-alikes do, by the best score, with the 95 %
interval that independent candidates would have:

| network | every adversary | knows the starts |
|---|---|---|
{rows}""")

# %% [markdown]
# ## The three-layer networks of the main chapters
#
# There the equations outnumber the unknowns, and searches from pure noise end at training images. The pool
# holds all candidates of all restarts. Few of them look like an image that was not trained on, so members are
# told from *all* other candidates: an adversary who picks by a score, and what he picks.

# %%
cells = {
    "two classes": Experiment(per_class=samples // 2),
    "ten classes": Experiment(task="multiclass", per_class=samples // 10),
}
cells = {name: at_profile(cell, profile) for name, cell in cells.items()}
if profile != "cpu":  # agreement needs several restarts
    cells = {n: replace(c, attack={**c.attack, "restarts": 3}) for n, c in cells.items()}

# %%
large, clusters = {}, {}
for name, cell in cells.items():
    for s in range(seed, seed + seeds):
        outcome = run(replace(cell, seed=s))
        outcome.record(result, f"{name}/seed {s}")
        task, found = outcome.task, outcome.found
        large.setdefault(name, []).append(pool_attack(found, task.x, task.x_held_out, task.mean))
        grouped = cluster(found.candidates, found.run)
        report = against_truth(grouped, task.x, task.mean, held_out=task.x_held_out)
        clusters.setdefault(name, []).append((grouped, report))

# %% tags=["hide-input"]
deep = {name: [best_area(pool, look_alikes=False) for pool in found] for name, found in large.items()}
rows = "\n".join(
    f"| {name} | {spread([int(p.member.sum()) for p in found])} | "
    f"{spread([int(p.look_alike.sum()) for p in found])} | {len(found[0].image):,} | "
    + " | ".join(spread([areas(p, look_alikes=False)[n] for p in found], "{:.2f}") for n in BLIND)
    + f" | {in_words(best_rate(join(found), look_alikes=False))} |"
    for name, found in large.items()
)
for name, values in deep.items():
    result.metric(f"area, {name}", values)
head = f"| network | members | look-alikes | candidates | {' | '.join(BLIND)} | rate at 5 % |"
Markdown(head + "\n" + "|---" * (5 + len(BLIND)) + "|\n" + rows)

# %% tags=["hide-input"]
shown(
    large["ten classes"][0], BLIND, "Ten classes, first seed: members against all others", look_alikes=False
)

# %% [markdown]
# ## Which candidates to believe
#
# These searches start from noise, and an adversary knows its distribution: a start and its negative are
# equally likely. So a candidate that owes nothing to the weights resembles other candidates and their
# negatives equally often, and agreement with *negatives* shows how much agreement chance makes. Clusters of
# candidates from several restarts are believed while chance would make at most a tenth of them. No training
# image is needed for that.

# %% tags=["hide-input"]
rows = "\n".join(
    f"| {name} | {seed + i} | {len(grouped)} | {report['precision_accepted']['k']} | "
    "{true} ({precision:.0%}; {low:.0%} to {high:.0%})".format(**report["precision_accepted"])
    + f" | {report['held_out']} of {report['clusters']} |"
    for name, found in clusters.items()
    for i, (grouped, report) in enumerate(found)
)
kept = ("clusters", "restarts", "radius", "true", "images_found", "precision_accepted", "held_out")
for name, found in clusters.items():
    for i, (_, report) in enumerate(found):
        result.control(f"clusters, {name}/seed {seed + i}", {k: report[k] for k in kept})
head = "| network | seed | clusters | believed | of them members | clusters above 0.4 with a held-out image |"
Markdown(head + "\n|---|---|---|---|---|---|\n" + rows)

# %% [markdown]
# The clusters that the ten-class adversary believes most, chosen and ordered without the training set. The
# SSIM beneath is the judge's, and the adversary does not see it.

# %% tags=["hide-input"]
grouped, report = clusters["ten classes"][0]
captions = [f"{score:.2f}" for score in report["ssim"][:30]]
alt = f"Means of the {len(captions)} most trusted clusters, with their SSIM to a training image beneath."
if captions:
    display(grid_of(grouped.image[:30] + task.mean, captions, columns=10, alt=alt))

# %% [markdown]
# ## Verdict
#
# One number per small network and formulation, over all training sets: the best area of the three scores that
# every adversary has.

# %% tags=["hide-input"]
result.claim("R-membership", area=list(best.values()))
result.metric("chance_area", list(chance.values()))
result.metric("informed_area", list(informed.values()))
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
blind, knowing, lots = (sum(v.values()) / len(v) for v in (best, informed, chance))
believed = sum(r["precision_accepted"]["k"] for found in clusters.values() for _, r in found)
right = sum(r["precision_accepted"]["true"] for found in clusters.values() for _, r in found)
three_layers = "; ".join(f"{name} {spread(values, '{:.2f}')}" for name, values in deep.items())
told = "found in the large ones as well"
if min(min(values) for values in deep.values()) > blind:
    told = "their own, and does not carry over"
Markdown(f"""## Reading

On the small networks the best score reaches an area of {blind:.2f} on average, where lots would reach
{lots:.2f}; knowing the starts gives {knowing:.2f}. On the three-layer networks the best score reaches:
{three_layers}. Of {believed} clusters that their adversaries would believe, {right} are members. The
uncertainty of the small networks is {told}.""")

# %% tags=["hide-input"]
if profile == "smoke":
    assert all(pool.member.any() and pool.look_alike.any() for pool in small.values()), "a kind is missing"
    assert all(0.5 <= value <= 1 for value in [*best.values(), *informed.values()])
result.save()
Markdown(provenance_markdown(result.to_dict()))
