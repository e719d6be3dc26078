# %% [markdown]
# # Points in the plane
#
# | Question | What does the attack do, step by step, where every image is a point that can be drawn? |
# |---|---|
# | Claim | In the plane, candidates move to the training points without any prior |
# | Figure | Haim et al. 2022, figure 2 |
# | Expected | candidates end at the 20 training points; here: at nine tenths of them or more |
# | Cost | about seven minutes on 2 cores, no GPU |
# | Command | `papermill notebooks/haim_toy_2d.py` |
# | Differs | labels take turns; training goes to the limit of the flow; Adam moves the candidates |

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # of the first network and of its attack; the others count on from here
networks: int = 3  # networks from different starts, each attacked once
points: int = 20  # training points on the circle
candidates: int = 100  # points that the attack moves
steps: int = 4000  # of the attack

# %% tags=["hide-input"]
from IPython.display import Markdown

from reconlib.attack import AttackSettings, overview
from reconlib.models import ModelSettings, Network
from reconlib.planes import circle, closeness, follow, nearest, reached, spacing, stepped
from reconlib.rates import proportion_interval
from reconlib.results import record
from reconlib.training import TrainSettings, train
from reconlib.verdicts import claims_markdown, provenance_markdown

hidden, settle_steps = (1000, 1000), 1200
if profile == "smoke":
    hidden, settle_steps, networks, points, candidates, steps = (200, 200), 600, 1, 8, 40, 1500
if profile == "paper":
    networks, steps = 10, 20_000
seeds = [seed + k for k in range(networks)]
result = record(
    "haim_toy_2d",
    profile,
    {"seed": seed, "networks": networks, "points": points, "candidates": candidates, "steps": steps},
)

# %% [markdown]
# ## The task
#
# The training points lie on the unit circle, evenly spaced, and their labels take turns: round, square,
# round, square. A network that tells them apart has to bend its boundary in and out between neighbours, so
# that every point lies on the margin. This is what the method needs: only points on the margin hold the
# weights in place.
#
# The points halfway between neighbours are held out. An attack that only found the circle, and not the points
# on it, would come as close to those.

# %%
task = circle(points)
result.data(task)
radius = spacing(task.x) / 10
print(
    f"{len(task.x)} training points, {len(task.x_held_out)} held out; neighbours are {10 * radius:.3f} apart"
)

# %% [markdown]
# ## Training and attack
#
# A network of three layers learns to tell round from square. The attack then gets the network alone and
# looks for points and multipliers with $\theta = \sum_i \lambda_i y_i \nabla_\theta \Phi(x_i)$. Its
# candidates start scattered over the plane, half of them for each label. There is no prior: nothing says that
# the points lie on a circle, how many there are, or how far out.

# %%
training = TrainSettings(trainer="margin", lr=1e-4, settle_steps=settle_steps)
models = [ModelSettings((2,), 1, hidden, first_layer_scale=0.4, seed=s) for s in seeds]
with result.stage("train"):
    networks_trained = [train(model, task, training, progress=False).network for model in models]

# %%
attacks = [
    AttackSettings(
        candidates=candidates, steps=steps, seed=s, start_scale=1.0,
        rank=None, spread=0.0, whitening=0.0, range_weight=0.0,  # the plain equation in the plane, no prior
    )
    for s in seeds
]  # fmt: skip
print(overview(networks_trained[0], attacks[0]))

# %%
kept = [steps // 40, steps // 4, steps // 2, 3 * steps // 4]
with result.stage("attack"):
    paths = [follow(network, attack, kept) for network, attack in zip(networks_trained, attacks, strict=True)]
    untrained = [follow(Network(model), attack) for model, attack in zip(models, attacks, strict=True)]

# %% [markdown]
# ## The candidates on their way
#
# The ground shows the network's two answers, the black line its decision boundary. Training points are drawn
# in red; a candidate that has found one sits inside. A point is *reached* when a candidate is within a tenth
# of the distance between neighbours.

# %% tags=["hide-input"]
stepped(paths[0], task, networks_trained[0])

# %% [markdown]
# ## How close
#
# For each candidate, the distance to the nearest training point, in units of the distance between neighbours.
# Held-out points lie half a unit from the nearest training points, so a candidate cannot be close to both.

# %% tags=["hide-input"]
unit = 10 * radius
distances = {
    "candidates to training points": nearest(paths[0].end, task.x) / unit,
    "candidates to held-out points": nearest(paths[0].end, task.x_held_out) / unit,
    "their start to training points": nearest(paths[0].candidates[0], task.x) / unit,
    "untrained network, to training points": nearest(untrained[0].end, task.x) / unit,
}
result.table("distances", **{name: values.tolist() for name, values in distances.items()})
closeness(distances, mark=0.1, x_label="distance, in units of the distance between neighbours")

# %% tags=["hide-input"]
counts = {
    "training points": [int(reached(task.x, p.end, radius).sum()) for p in paths],
    "held-out points": [int(reached(task.x_held_out, p.end, radius).sum()) for p in paths],
    "training points, by the start": [int(reached(task.x, p.candidates[0], radius).sum()) for p in paths],
    "training points, untrained network": [int(reached(task.x, p.end, radius).sum()) for p in untrained],
}
arrived = [float((nearest(p.end, task.x) <= radius).double().mean()) for p in paths]
low, high = proportion_interval(sum(counts["training points"]), points * networks)
result.control("reached", {"points": points, **counts})
result.metric("candidates_at_a_training_point", arrived)
result.claim("H2-plane", recovered_share=[c / points for c in counts["training points"]])
rows = "\n".join(f"| {name} | {', '.join(map(str, c))} |" for name, c in counts.items())
Markdown(f"""| reached, of {points} | seeds {", ".join(map(str, seeds))} |
|---|---|
{rows}

Over all networks {sum(counts["training points"])} of {points * networks} training points were reached
({low:.0%} to {high:.0%} with 95 % confidence). Of the candidates, {sum(arrived) / networks:.0%} ended at a
training point.""")

# %% [markdown]
# ## Reading
#
# Several candidates gather at one point and share its multiplier between them: the equation cares for the sum
# only. A few stay behind where the network's gradient says little about where they are. Nothing in the
# equation tells an attacker which candidate is which; but where several of one label meet, a training point
# is likely. The chapter on membership turns this into a test.

# %% tags=["hide-input"]
Markdown(claims_markdown(result.to_dict()))

# %% tags=["hide-input"]
if profile == "smoke":
    assert counts["training points"][0] >= points / 2, "too few points were reached, even of this small task"
    assert counts["held-out points"][0] == 0, "points that were never trained on were reached"
result.save()
Markdown(provenance_markdown(result.to_dict()))
