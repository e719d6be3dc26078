# %% [markdown]
# # Quick start
#
# | Question | Can images be read back out of the weights of a network that was trained on them? |
# |---|---|
# | Claim | Solving the equation that ties weights to images brings images back (Buzaglo et al. 2023) |
# | Data | 100 Fashion-MNIST images of the 1,000 that ship with the package; no network needed |
# | Expected | recognisable images; about a tenth are closer than 99 % of held-out images come |
# | Cost | about two minutes on 2 cores, no GPU |
# | Command | `papermill notebooks/quickstart.py` |
# | Differs from the papers | Fashion-MNIST instead of CIFAR-10 and MNIST; 100 images instead of 500 |

# %% tags=["parameters"]
profile: str = "cpu"  # smoke, cpu or paper
seed: int = 0  # of the network's start and of the attack's
per_class: int = 50  # training images of each of the two labels
weight_decay: float = 1e-3  # strength of the penalty ½·decay·‖θ‖²
restarts: int = 2  # attacks from different starts, pooled

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
from IPython.display import Markdown

from reconlib.attack import AttackSettings, first_layer_rows, overview, reconstruct
from reconlib.controls import compare
from reconlib.data import load_task
from reconlib.galleries import gallery
from reconlib.models import ModelSettings, Network
from reconlib.plots import distributions
from reconlib.results import record
from reconlib.training import TrainSettings, train
from reconlib.verdicts import provenance_markdown

hidden, steps = (1000, 1000), 1000
if profile == "smoke":
    per_class, hidden, steps, restarts = min(per_class, 10), (200, 200), 300, 1
if profile == "paper":
    steps, restarts = 5_000, 10
result = record(
    "quickstart",
    profile,
    {"seed": seed, "per_class": per_class, "weight_decay": weight_decay, "restarts": restarts},
)

# %% [markdown]
# ## What the network is trained on
#
# The two labels are the even and the odd classes of Fashion-MNIST: even are T-shirts, pullovers, coats,
# shirts and bags; odd are trousers, dresses, sandals, sneakers and boots. The first images of each label in
# file order are used, and the mean image is taken away from all of them. As many other images are held out.
# Nothing is trained on those; whatever an attack appears to find among them, it finds by chance.

# %%
task = load_task("fashion_mnist_mini", "even_vs_odd_classes", per_class=per_class, test=1000)
result.data(task)
print(f"{task.name}: {len(task.x)} training images, {len(task.x_held_out)} held out")

# %% tags=["hide-input"]
columns = min(10, per_class)
figure, axes = plt.subplots(2, columns, figsize=(columns, 2.4), layout="constrained")
for row, label in zip(axes, (1, 0), strict=True):
    for ax, image in zip(row, task.x[task.y == label], strict=False):
        ax.imshow((image + task.mean).squeeze(0), cmap="gray", vmin=0, vmax=1)
        ax.set_axis_off()
    row[0].set_title(task.label_names[label], loc="left", fontsize=9)
plt.show()

# %% [markdown]
# ## Training
#
# A network of three layers is trained until its weights stop moving. The certificate says how well the
# equation $\theta = \sum_i \lambda_i \nabla_\theta \Phi(x_i)$ holds at the true images: this is what leaks.

# %%
model = ModelSettings(tuple(task.mean.shape), task.outputs, hidden, first_layer_scale=None, seed=seed)
with result.stage("train"):
    trained = train(model, task, TrainSettings(weight_decay=weight_decay), progress=False)
certificate = trained.certificate
result.metric("test_error", certificate.test_error)
print(f"training error {certificate.train_error:.0%}, test error {certificate.test_error:.0%}")

# %% [markdown]
# ## The attack
#
# From here on nothing but the network is used. What is known of it, and what has to be found:

# %%
settings = AttackSettings(
    candidates=4 * per_class,
    steps=steps,
    restarts=restarts,
    seed=seed,
    alpha=(10.0, 300.0),
    rate=0.04,
    start_scale=1.0,  # in these units, about as bright as images: the weights say little about brightness
    bias_weight=100.0,  # the biases are what tells an image's brightness from its multiplier
)
print(overview(trained.network, settings))

# %%
with result.stage("attack"):
    found = reconstruct(trained.network, settings, progress=False)

# %% [markdown]
# ## The verdict of a judge who has the training images
#
# Training images in red, what the weights gave back beneath in blue, closest first, with their distance.
# Images with a black ground are ranked by this distance, not by the similarity (SSIM) that serves for
# photographs: SSIM above 0.4 asks for a clean ground, and the equation says little about it.

# %% tags=["hide-input"]
untrained = reconstruct(Network(model), settings, progress=False)
controls = compare(
    found.candidates,
    task,
    others={
        "untrained": untrained.candidates,
        "first_layer": first_layer_rows(trained.network),
    },
)
result.control("quickstart", controls)
gallery(controls.attack, task.x, task.mean, count=min(30, len(task.x)), by="distance")

# %% tags=["hide-input"]
rate = controls.rate(0.01, by="distance")
good = {name: control.good for name, control in controls.controls.items()}
result.metric("good", controls.attack.good, "images")
result.metric("best", controls.attack.best, "SSIM")
result.metric("true_positive_rate", rate.true_positive_rate)
low, high = rate.true_positive_interval
Markdown(f"""**{rate.true_positives} of {len(task.x)}** training images are closer to a candidate than
{1 - rate.target:.0%} of the {len(task.x_held_out)} images that the network never saw ({low:.0%} to
{high:.0%} with 95 % confidence). By the stricter mark of the papers, SSIM above 0.4, it is
{controls.attack.good} (best {controls.attack.best:.2f}), with {good["held_out"]} among the held-out images,
{good["untrained"]} for the same attack on the network before training, {good["first_layer"]} for the rows of
the first layer taken as images, and {good["noise"]} for noise on the mean image.""")

# %% tags=["hide-input"]
names = {"attack": "training images", "held_out": "held out", "untrained": "untrained network"}
names |= {"first_layer": "first-layer rows", "noise": "noise"}
distributions({shown: controls.scores(name) for name, shown in names.items()})

# %% tags=["hide-input"]
result.save()
Markdown(provenance_markdown(result.to_dict()))
