# %% [markdown]
# # See it
#
# | Question | What do reconstructions look like, which images come back, and how do they appear? |
# |---|---|
# | Claim | Images on the margin come back, others do not (Haim et al. 2022, Buzaglo et al. 2023) |
# | Data | 100 CIFAR-10 images, vehicles against animals |
# | Expected | about a third of the training images above SSIM 0.4, none of the held-out ones |
# | Cost | two to three minutes on 2 cores, no GPU |
# | Command | `papermill notebooks/see_it.py` |
# | Differs from the papers | 100 images instead of 500, with weight decay; no claim is judged here |

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # of the network's start and of the attack's
per_class: int = 50  # training images of each of the two labels
weight_decay: float = 1e-3  # strength of the penalty ½·decay·‖θ‖²

# %% tags=["hide-input"]
from IPython.display import Markdown

from reconlib.experiments import Experiment, run
from reconlib.film import record_path
from reconlib.interactive import film, hover_scatter, slider
from reconlib.matching import stretch
from reconlib.results import record
from reconlib.ssim import ssim

options = {"per_class": per_class, "weight_decay": weight_decay, "seed": seed}
if profile == "smoke":  # images that ship with the package, and a small network
    options |= {
        "dataset": "fashion_mnist_mini",
        "task": "even_vs_odd_classes",
        "per_class": min(per_class, 10),
    }
    options |= {"hidden": (200, 200), "attack": {"steps": 100, "restarts": 1, "rank": "auto"}}
if profile == "paper":
    options |= {"attack": {"steps": 5_000, "restarts": 10}}
result = record("see_it", profile, {"seed": seed, "per_class": per_class, "weight_decay": weight_decay})

# %% [markdown]
# ## Training, attack, judgement
#
# A network of three layers learns to tell vehicles from animals. The attack then gets the network and nothing
# else. Only after it has ended does a judge compare its candidates with the training images, and with as many
# images that the network never saw.

# %% tags=["hide-input"]
outcome = run(Experiment(**options))
outcome.record(result, "see_it")
task, judged, found = outcome.task, outcome.controls.attack, outcome.found
result.metric("good", judged.good, "images")
result.metric("held_out_good", outcome.held_out_good, "images")
result.metric("best", judged.best, "SSIM")
Markdown(
    f"**{judged.good} of {len(task.x)}** training images come back above SSIM 0.4, the best at "
    f"{judged.best:.2f}. Of {len(task.x_held_out)} held-out images, the same candidates reach that mark for "
    f"**{outcome.held_out_good}**."
)

# %% [markdown]
# ## Uncover them
#
# Move the slider, or a pointer over an image: to the left of the line is the training image, to the right
# what the weights gave back. The best twelve are shown.

# %% tags=["hide-input"]
slider(judged, task.x, task.mean, count=12)

# %% [markdown]
# ## Which ones come back
#
# Every dot is a training image. To the left are those near the boundary between the two labels, and the
# margin is where the theory says the weights come from. Point at a dot to see its pair; blue dots are above
# SSIM 0.4.

# %% tags=["hide-input"]
hover_scatter(judged, task.x, task.mean, outcome.boundary)

# %% [markdown]
# ## How they appear
#
# The first of the attack's restarts once more, from noise to its last step, for the four candidates that
# end nearest to their images. Each is shown as the judge would show it, with the mean image added and the
# contrast stretched; that is why the first frames resemble an average photograph and not grey noise.

# %% tags=["hide-input"]
first = (found.run == 0).nonzero().squeeze(1)
served = judged.serves[first]
each = ssim((task.x + task.mean)[served], stretch(found.candidates[first] + task.mean))
chosen = []
for i in each.argsort(descending=True).tolist():
    if served[i] not in served[chosen]:
        chosen.append(i)
chosen = chosen[:4]
path = record_path(outcome.trained.network, found.settings, frames=40)
frames = stretch(path.candidates[:, chosen].flatten(0, 1) + task.mean)
frames = frames.unflatten(0, (len(path.steps), len(chosen))).transpose(0, 1)
training = (task.x + task.mean)[served[chosen]]
best = [float(ssim(training[:1], frames[:1, t])) for t in range(len(path.steps))]
film(frames, training, path.steps, {"residual": path.residual, "SSIM of the first": best})

# %% tags=["hide-input"]
result.save()
Markdown(f"At the last step the mismatch is {path.residual[-1]:.1%} of what it is without candidates.")
