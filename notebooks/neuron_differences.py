# %% [markdown]
# # Without a search: differences of neurons
#
# | Question | Does one need to solve the equation by a search at all? |
# |---|---|
# | Claim | none of the papers': this page goes beyond them |
# | Figure | none |
# | Expected | more images than the search finds, in less than a second |
# | Cost | about 15 minutes on 2 cores, no GPU, beside the networks it shares with figure 2 |
# | Command | `papermill notebooks/neuron_differences.py` |
# | Differs from the papers | the attack itself; networks and judge are those of the other pages |
#
# In detail:
#
# - The attack was found on networks trained on other images than those shown here. It has no rate, no
#   steps and no random start. Three numbers were fixed there: how dark or bright an image may be, how small
#   a neuron counts as dead, and that each neuron is compared with three neighbours.
# - Two classes are trained to the limit of gradient flow, as on the page of figure 2. For ten classes
#   both that limit and the published loss are shown.

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # the first of the seeds of the networks
seeds: int = 3  # networks of each kind
samples: int = 500  # training images of each network
weight_decay: float = 1e-3  # of the network with decay
regression_decay: float = 7.5e-4  # of the network trained with the squared error
settle_steps: int = 3600  # at the end of training with ten classes, each of which brings kinks of its own

# %% tags=["hide-input"]
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import torch
from IPython.display import Markdown, display

from reconlib.attack import neuron_differences
from reconlib.attack.layers import read_chain
from reconlib.controls import compare
from reconlib.experiments import Experiment, cache_folder, run
from reconlib.galleries import gallery, images
from reconlib.matching import judge
from reconlib.models import Network
from reconlib.picture import RECONSTRUCTION, TRAINING
from reconlib.plots import Series, curves
from reconlib.profiles import at_profile
from reconlib.results import record
from reconlib.sweeps import NEAR, check_reconstructions, spread
from reconlib.training import train
from reconlib.verdicts import provenance_markdown

if profile == "smoke":
    samples, seeds, settle_steps = 60, 1, 100
parameters = {"seed": seed, "seeds": seeds, "samples": samples}
parameters |= {"weight_decay": weight_decay, "regression_decay": regression_decay}
parameters["settle_steps"] = settle_steps
result = record("neuron_differences", profile, parameters)

# %% [markdown]
# ## The idea
#
# Take the first layer's part of the [equation](../how-it-works.md). The row $w_j$ of neuron $j$, with its
# bias $b_j$ appended, is a sum over the training images,
#
# $$
# (w_j,\,b_j)=v_j\sum_i s_{ij}\,\mu_i\,(x_i,\,1),
# $$
#
# where $\mu_i=\lambda_iy_i$ is the image's multiplier with its sign, $s_{ij}$ is the slope of the ReLU, 1
# where the neuron responds to the image and 0 where it does not, and $v_j$ is what the later layers make
# of the neuron. In networks that have come to rest, $v_j$ is the same for most images: the layers in
# between have lost their random start, and little is left in them but one direction for each sign of an
# output. It can be read off the weights as the product of the later matrices.
#
# Now divide every row by its $v_j$ and subtract two of them:
#
# $$
# \frac{(w_j,b_j)}{v_j}-\frac{(w_k,b_k)}{v_k}=\sum_i\,(s_{ij}-s_{ik})\,\mu_i\,(x_i,\,1).
# $$
#
# Only the images that the two neurons treat differently remain. If it is a single one, the difference
# *is* that image, times $\mu_i$, and the last coordinate says what $\mu_i$ is; if it is a few, one may
# outweigh the others. So: subtract from each neuron its nearest neighbours, divide each difference by its
# last coordinate, and drop what is too dark or too bright for an image. That is the whole attack.

# %%
two = Experiment(per_class=samples // 2)
ten = Experiment(task="multiclass", per_class=samples // 10)
cells = {
    "two classes": two,
    "two classes, published loss": replace(two, training={"trainer": "flow", "target_log_loss": -12.4}),
    "two classes, weight decay": replace(two, weight_decay=weight_decay),
    "squared error, weight decay": replace(two, loss="squared", weight_decay=regression_decay),
    "two classes, four layers": replace(two, hidden=(500, 500, 500)),
    "two classes, two layers": replace(two, hidden=(1000,)),
    "ten classes": replace(ten, training={"trainer": "margin", "settle_steps": settle_steps}),
    "ten classes, published loss": ten,
}
cells = {name: at_profile(cell, profile) for name, cell in cells.items()}
searched = ("two classes", "ten classes, published loss")  # the pages of figures 1, 2 and 8 search these two

# %% tags=["hide-input"]
found, shown, rates = {}, {}, []
for name, cell in cells.items():
    for s in range(seed, seed + seeds):
        one = replace(cell, seed=s)
        task = one.data()
        model, training, _ = one.settings(task)
        network = train(model, task, training, cache=cache_folder(), progress=False).network
        began = time.perf_counter()
        differences = neuron_differences(network)
        seconds = time.perf_counter() - began
        controls = compare(differences.images, task)
        rates.append(SimpleNamespace(near=controls.rate(NEAR, by="distance")))
        result.data(task)
        result.control(f"{name}/seed {s}", controls)
        result.seconds("differences", seconds, False)
        row = {"good": controls.attack.good, "held out": controls.controls["held_out"].good}
        row |= {
            "best": controls.attack.best,
            "rate": controls.rate(0.01).true_positive_rate,
            "seconds": seconds,
        }
        if name in searched:
            row["search"] = run(one).good
        for key, value in row.items():
            found.setdefault(name, {}).setdefault(key, []).append(value)
        shown.setdefault(name, (network, task, differences, controls))

# %% tags=["hide-input"]
header = ["network", "above 0.4", "held out above 0.4", "best SSIM", "rate at 1 % held out", "seconds"]
header.append("by the search")
lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
for name, row in found.items():
    texts = [spread(row["good"]), spread(row["held out"]), spread(row["best"], "{:.2f}")]
    texts += [spread(row["rate"], "{:.0%}"), spread(row["seconds"], "{:.1f}")]
    texts.append(spread(row["search"]) if "search" in row else "–")
    lines.append("| " + " | ".join([name, *texts]) + " |")
    result.table(
        name, seed=list(range(seed, seed + seeds)), **{k.replace(" ", "_"): v for k, v in row.items()}
    )
display(Markdown("\n".join(lines)))
both, passed = (sum(sum(row[key]) for row in found.values()) for key in ("good", "held out"))
Markdown(f"""Images above SSIM 0.4 of {samples} in each network, mean and range over {seeds} seed(s). The
last column is what the search finds in the same networks, in minutes. Together {both:,} training images
pass, and {passed} of as many held-out ones.""")

# %% [markdown]
# ## Seeing it
#
# Eight pairs of the first network with two classes, those that end nearest to a training image. The first
# two rows are the two neurons, as images: sums over hundreds of photographs, and to the eye the same. The
# third row is their difference. The fourth is the training image it belongs to.

# %% tags=["hide-input"]
network, task, differences, controls = shown["two classes"]
judged = controls.attack
chosen = []
for i in judged.candidate_distance.argsort().tolist():
    if judged.serves[i] not in judged.serves[chosen]:
        chosen.append(i)
chosen = chosen[:8]
rows = read_chain(network).weights[0].detach().reshape(-1, *task.mean.shape)
strips = {
    "the first neuron of each pair": (rows[differences.neurons[chosen, 0]], None),
    "the second": (rows[differences.neurons[chosen, 1]], None),
    "their difference, the mean image added": (differences.images[chosen] + task.mean, RECONSTRUCTION),
    "a training image": ((task.x + task.mean)[judged.serves[chosen]], TRAINING),
}
for title, (strip, frame) in strips.items():
    alt = f"Eight images: {title}."
    display(images(strip, columns=8, title=title, alt=alt, **({"frame": frame} if frame else {})))

# %% tags=["hide-input"]
gallery(judged, task.x, task.mean, count=30, title="two classes, the best thirty")

# %% tags=["hide-input"]
gallery(shown["ten classes"][3].attack, shown["ten classes"][1].x, shown["ten classes"][1].mean, count=30,
        title="ten classes, the best thirty")  # fmt: skip

# %% [markdown]
# ## Why it works
#
# About how many training images do the two neurons of a pair disagree? The judge, who has the images, can
# tell. A neuron whose kink lies on an image responds to it in part; the slope is taken as training took it, a
# steep sigmoid. With $a_i=|s_{ij}-s_{ik}|$ the number of images is $(\sum_ia_i)^2/\sum_ia_i^2$: one if
# the two disagree about one image only, $n$ if about all alike.


# %% tags=["hide-input"]
def disagreement(network: Network, x: torch.Tensor, pairs: torch.Tensor, sharpness: float) -> torch.Tensor:
    """|s_ij − s_ik| for every image i and every pair (j, k)."""
    chain = read_chain(network)
    with torch.no_grad():
        slopes = torch.sigmoid(sharpness * (x.flatten(1) @ chain.weights[0].T + chain.biases[0])).double()
    return (slopes[:, pairs[:, 0]] - slopes[:, pairs[:, 1]]).abs()


def how_many(a: torch.Tensor) -> torch.Tensor:
    return a.sum(0).square() / a.square().sum(0).clamp_min(1e-12)


_, training, _ = cells["two classes"].settings(task)
sharpness = training.resolved(1).sharpness
neighbours = disagreement(network, task.x, differences.neurons, sharpness)
alive = differences.neurons.unique()
drawn = torch.randint(
    len(alive), (len(differences.neurons), 2), generator=torch.Generator().manual_seed(seed)
)
strangers = alive[drawn[drawn[:, 0] != drawn[:, 1]]]
images_between = how_many(neighbours)
between_any = float(how_many(disagreement(network, task.x, strangers, sharpness)).median())
most = neighbours.argmax(0) == judged.serves
near = judged.candidate_distance.cpu()
edges = [0, 5, 10, 20, 40, len(task.x) + 1]
header = ["images they disagree about", "pairs", "median distance to the nearest training image"]
header.append("that image is the one they disagree about most")
lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
for low, high in pairwise(edges):
    inside = (images_between >= low) & (images_between < high)
    texts = [f"{low} to {high}" if high <= len(task.x) else f"more than {low}", str(int(inside.sum()))]
    if bool(inside.any()):
        texts += [f"{float(near[inside].median()):.2f}", f"{float(most[inside].double().mean()):.0%}"]
    lines.append("| " + " | ".join([*texts, "–", "–"][:4]) + " |")
display(Markdown("\n".join(lines)))
between = float(images_between.median())
order = images_between.argsort()
closest, farthest = (
    float(near[part].median()) for part in (order[: len(order) // 4], order[-len(order) // 4 :])
)
for key, value in {"images_between_any": between_any, "images_between_neighbours": between}.items():
    result.metric(key, value)
result.metric("distance_few_images", closest)
result.metric("distance_many_images", farthest)
Markdown(f"""Two neurons at random disagree about **{between_any:.0f}** of {len(task.x)} images, a neuron and
its neighbour about **{between:.0f}** (medians). The quarter of pairs that disagree about the fewest lies at a
median distance of {closest:.2f} from a training image, the quarter with the most at {farthest:.2f}. For
{float(most.double().mean()):.0%} of all pairs the nearest training image is the one about which the two
disagree most; by chance that would be one in {len(task.x)}. The judge averages candidates that are about
equally near to an image, which removes part of what the others leave.""")

# %% [markdown]
# ## How many neighbours to take
#
# Three neighbours for each neuron were fixed beforehand. The count hardly depends on it.

# %% tags=["hide-input"]
numbers = [1, 2, 3, 5, 10, 20]
many = [neuron_differences(network, k).images for k in numbers]
inside = [judge(candidates, task.x, task.mean).good for candidates in many]
outside = [judge(candidates, task.x_held_out, task.mean).good for candidates in many]
result.table("by neighbours", neighbours=numbers, good=inside, held_out_good=outside)
series = [Series("training images", numbers, [[v] for v in inside])]
series.append(Series("held out", numbers, [[v] for v in outside]))
curves(series, x_label="neighbours of each neuron", y_label="images above SSIM 0.4")

# %% [markdown]
# ## Controls
#
# The same linear algebra on the network before training, and on one trained on other images, judged
# against the same training images.

# %% tags=["hide-input"]
one = cells["two classes"]
model, training, _ = one.settings(task)
elsewhere = replace(one, offset=one.offset + 2 * one.per_class)
other = train(model, elsewhere.data(), training, cache=cache_folder(), progress=False).network
unrelated = {"before training": Network(model), "trained on other images": other}
for name, stranger in unrelated.items():
    strange = judge(neuron_differences(stranger).images, task.x, task.mean)
    result.metric(f"good_{name.replace(' ', '_')}", strange.good)
    display(Markdown(f"- Network {name}: **{strange.good}** of {len(task.x)}, best SSIM {strange.best:.2f}."))

# %% [markdown]
# ## What it means
#
# The papers ask whether the equation can be solved for the images. For these networks part of the solution
# stands in the weights openly, and what an attacker needs is less than a search suggests: no rate, no
# restarts, no GPU. Training puts it there. At rest, the kinks of the ReLU tend to lie on training images, and
# neighbouring neurons differ by few of them. It needs a first layer that sees whole images, and a network
# close to rest: with ten classes at the published loss the second layer still keeps most of its random
# start, $v_j$ differs from image to image, and little comes back.
#
# Claims of the papers are judged by the search alone, as the papers' own attack. The tables of the other
# pages show these differences beside it.

# %% tags=["hide-input"]
if profile == "smoke":
    print(check_reconstructions(rates))
result.save()
Markdown(provenance_markdown(result.to_dict()))
