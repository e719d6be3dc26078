# %% [markdown]
# # Where a reconstruction begins
#
# | Question | Does a reconstruction show the training images, or where the search began? |
# |---|---|
# | Claim | Random and foreign starts end at images that explain the weights and are no members |
# | Figure | Runkel et al. 2024: random starts, starts at the truth, starts at another partition |
# | Expected | a small distance between parameters from every start; members only from the truth |
# | Cost | about 15 minutes on 2 cores, no GPU |
# | Command | `papermill notebooks/uncertainty_initialisation.py` |
# | Differs | 50 images; the hidden layer's ReLU is smooth; L-BFGS moves the images; exact retraining |

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # of the first network and of the first noise; repeats count on from here
repeats: int = 3  # networks and noises, each from its own seed
per_class: int = 5  # training images of each class
hidden: int = 50  # units of the network with one hidden layer
weight_decay: float = 0.1  # strength of the penalty ½·decay·‖θ‖²
steps: int = 150  # of each search over images

# %% tags=["hide-input"]
from IPython.display import Markdown
from torch import cdist

from reconlib.bilevel import FORMULATIONS, Classifier, Training, retrain, search
from reconlib.bilevel.measures import judge_ending
from reconlib.bilevel.pictures import against, strips
from reconlib.bilevel.starts import named_starts, parts
from reconlib.results import record
from reconlib.verdicts import claims_markdown, provenance_markdown

dataset, classes = "cifar10", 10
if profile == "smoke":
    dataset, classes, repeats, per_class, hidden, steps = "fashion_mnist_mini", 3, 1, 4, 4, 60
if profile == "paper":
    repeats, per_class, hidden, steps = 5, 10, 100, 1000
seeds = [seed + k for k in range(repeats)]
result = record(
    "uncertainty_initialisation",
    profile,
    {"seed": seed, "repeats": repeats, "per_class": per_class, "hidden": hidden, "steps": steps}
    | {"weight_decay": weight_decay},
)

# %% [markdown]
# ## Two ways to ask for the same images
#
# The attacker has the parameters $\theta^*$ and knows the labels. Both formulations look for images $x$:
#
# - **bilevel**: train a network on $x$ until its parameters $\theta(x)$ no longer move, and make
#   $\|\theta(x) - \theta^*\|$ small. How $\theta(x)$ follows $x$ comes from the equation that holds at its
#   minimum, $\partial\theta/\partial x = -(\nabla^2 E)^{-1}\, \partial_x \nabla E$, without a pass back
#   through the training.
# - **KKT**: leave the network as it is, and make $\|\theta^* - \sum_i \lambda_i \nabla\Phi(x_i)\|$ small,
#   where the loss itself says what the multipliers $\lambda_i$ are.
#
# At the training images both are zero. The question is where else they are.

# %%
images = parts(dataset, per_class=per_class, classes=classes)
result.data(images.task)
shape = tuple(images.mean.shape)
classifiers = {
    "affine": Classifier(images.mean.numel(), classes),
    "one hidden layer": Classifier(images.mean.numel(), classes, hidden, sharpness=3.0),
}
trainings = {name: Training(c, images.y, weight_decay) for name, c in classifiers.items()}
with result.stage("train"):
    given = {
        (name, s): retrain(training, images.x.flatten(1), training.classifier.start(s)).theta
        for name, training in trainings.items()
        for s in seeds
    }

# %% tags=["hide-input"]
unknowns = images.x.numel()
ratio = {name: c.parameters / unknowns for name, c in classifiers.items()}
result.metric("equations_per_unknown_affine", ratio["affine"])
result.metric("equations_per_unknown_hidden", ratio["one hidden layer"])
Markdown(f"""The {len(images.x)} training images hold {unknowns:,} unknown pixels. The affine network has
{classifiers["affine"].parameters:,} parameters, {ratio["affine"]:.2f} for each unknown; the network with
{hidden} hidden units has {classifiers["one hidden layer"].parameters:,}, {ratio["one hidden layer"]:.2f} for
each. Each parameter is one equation. Where unknowns outnumber equations, there are other solutions than the
training images.""")

# %% [markdown]
# ## Six starts
#
# Normal noise with the contrast of the images; noise mixed with 25, 50 and 75 per cent of the training image;
# the training images themselves; and images of another part of the data set, of the same classes but not
# trained on. A third part, from which nothing starts, is the control for look-alikes.

# %%
with result.stage("search"):
    found = {
        (name, formulation, start, s): search(formulation, training, given[name, s], begin, steps=steps)
        for name, training in trainings.items()
        for s in seeds
        for start, begin in named_starts(images, s).items()
        for formulation in FORMULATIONS
    }
ends = {key: judge_ending(f, images) for key, f in found.items()}

# %% [markdown]
# ## What the searches show
#
# One column is one image. Ends of the searches on the affine network, from noise and from other images; last
# the training image that is nearest to what the bilevel search found.


# %% tags=["hide-input"]
def show(name, start):
    ended = {f: found[name, f, start, seed] for f in FORMULATIONS}
    distance = cdist(ended["bilevel"].images.flatten(1), images.x.flatten(1))
    rows = {"training image": images.x, "start": ended["bilevel"].start}
    rows |= {f"end, {f}": e.images for f, e in ended.items()}
    rows |= {"nearest training image": images.x[distance.argmin(1)]}
    one_of_each = {label: pictures[::per_class] for label, pictures in rows.items()}
    title = f"{name}, from {start}: parameter distance {ended['bilevel'].parameter_distance:.1e} (bilevel)"
    return strips(one_of_each, images.mean, title=title, alt=f"{title}. Rows: {', '.join(rows)}.")


show("affine", "noise")

# %% tags=["hide-input"]
show("affine", "other images")

# %% [markdown]
# The same on the network with one hidden layer, and a start that is half true.

# %% tags=["hide-input"]
show("one hidden layer", "noise")

# %% tags=["hide-input"]
show("one hidden layer", "50% truth")

# %% [markdown]
# ## Explained weights, far from the truth
#
# Each point is one search. To the right: far from the training images. Down: the weights are explained well.
# A point at the lower right is another training set that gives the same network.

# %% tags=["hide-input"]
starts = list(named_starts(images, seed))
picked = {
    f"{name}, {f}": {
        start: [(ends[name, f, start, s].to_truth, ends[name, f, start, s].parameter_distance) for s in seeds]
        for start in starts
    }
    for name in classifiers
    for f in FORMULATIONS
}
result.table(
    "ends",
    **dict(zip(("network", "formulation", "start", "seed"), zip(*ends, strict=True), strict=True)),
    **{measure: [getattr(e, measure) for e in ends.values()] for measure in vars(next(iter(ends.values())))},
)
against(picked, x_label="distance to the training images", y_label="parameter distance")

# %% tags=["hide-input"]
columns = ("parameter_distance", "to_start", "to_truth", "to_member", "members", "chance", "start_members")


def mean(name, formulation, start, measure):
    return sum(getattr(ends[name, formulation, start, s], measure) for s in seeds) / repeats


lines = [
    f"| {name} | {f} | {start} | "
    + " | ".join(f"{mean(name, f, start, c):.2g}" for c in columns[:4])
    + " | "
    + " | ".join(f"{mean(name, f, start, c):.0%}" for c in columns[4:])
    + " |"
    for name in classifiers
    for f in FORMULATIONS
    for start in starts
]
head = "| network | form | start | parameter distance | to start | to truth | to nearest member "
head += "| members | chance | members at start |\n" + "|---" * 10 + "|"
Markdown(head + "\n" + "\n".join(lines))

# %% [markdown]
# Distances between images are in units of the training images' contrast; two unrelated images lie about
# $\sqrt 2$ apart. *Members*: share of the ends with SSIM above 0.4 to their nearest training image. *Chance*:
# the same with the control part, which no search has seen.

# %% tags=["hide-input"]
both = [(name, s) for name in classifiers for s in seeds]
random = {f: [ends[name, f, "noise", s] for name, s in both] for f in FORMULATIONS}
truth = {f: [ends[name, f, "training images", s].to_start for name, s in both] for f in FORMULATIONS}
other = [ends[name, "bilevel", "other images", s] for name, s in both]
result.claim(
    "R-random-starts",
    member_share=[e.members for e in random["bilevel"] + random["kkt"]],
    parameter_distance=[e.parameter_distance for e in random["bilevel"]],
)
result.claim("R-truth", drift_bilevel=truth["bilevel"], drift_kkt=truth["kkt"])
result.claim(
    "R-other-partition",
    start_over_truth=[e.to_start / e.to_member for e in other],
    parameter_distance=[e.parameter_distance for e in other],
)
result.control(
    "look-alikes",
    {f"{n}, {f}, {start}": {"members": mean(n, f, start, "members"), "chance": mean(n, f, start, "chance")}
     for n in classifiers for f in FORMULATIONS for start in starts},
)  # fmt: skip

# %% tags=["hide-input"]
affine, deep = (
    {start: mean(name, "bilevel", start, "parameter_distance") for start in starts} for name in classifiers
)
stuck = (
    "These are minima of the search, not other training sets: the weights do say that the images are wrong."
)
settled = "These too are close to being other training sets of the same network."
told = stuck if min(deep["noise"], deep["other images"]) > 0.05 else settled
Markdown(f"""## Reading

On the **affine** network the bilevel search explains the weights from every start: the parameter distance
ends at {affine["noise"]:.1e} from noise and at {affine["other images"]:.1e} from other images, while
{mean("affine", "bilevel", "noise", "members"):.0%} and
{mean("affine", "bilevel", "other images", "members"):.0%} of the images are members (control:
{mean("affine", "bilevel", "noise", "chance"):.0%} and
{mean("affine", "bilevel", "other images", "chance"):.0%}). The images end
{mean("affine", "bilevel", "other images", "to_start"):.2f} contrasts from where they began, and
{mean("affine", "bilevel", "other images", "to_member"):.2f} from the nearest member. These are other training
sets of the same network: nothing in the weights speaks against them.

With **one hidden layer** the bilevel search ends at {deep["noise"]:.2g} from noise and at
{deep["other images"]:.2g} from other images, against {deep["training images"]:.1e} at the truth. {told}
From a start that is half true the distance to the training images goes from
{mean("one hidden layer", "kkt", "50% truth", "start_to_truth"):.2f} to
{mean("one hidden layer", "kkt", "50% truth", "to_truth"):.2f} in the KKT form and to
{mean("one hidden layer", "bilevel", "50% truth", "to_truth"):.2f} in the bilevel form.

How much a start decides depends on how many unknowns there are for each equation: the next chapter varies
their number.""")

# %% tags=["hide-input"]
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
if profile == "smoke":
    assert affine["noise"] < 0.01, "the bilevel search did not explain the weights of an affine network"
    assert max(truth["bilevel"] + truth["kkt"]) < 0.01, "a search left the training images"
result.save()
Markdown(provenance_markdown(result.to_dict()))
