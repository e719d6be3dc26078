"""Pictures of real images: frames in the right places, numbers in the description, one look."""

import io
import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from PIL import Image

from reconlib.boundary import Boundary
from reconlib.controls import compare
from reconlib.data import load_task
from reconlib.galleries import gallery, images, pairs
from reconlib.matching import judge
from reconlib.picture import CYCLE, GROUND, INK, RECONSTRUCTION, TRAINING, Picture
from reconlib.plots import Panel, Series, curves, distributions, heat_map, rate_curves, scatter
from reconlib.rates import precision_recall, roc
from reconlib.verdicts import COLOURS


@pytest.fixture(scope="module")
def task():
    return load_task("fashion_mnist_mini", "even_vs_odd_classes", per_class=15)


@pytest.fixture(scope="module")
def judged(task):
    """The truth under noise stands in for an attack: the plots do not care where candidates come from."""
    draw = torch.Generator().manual_seed(0)
    noise = torch.linspace(0, 0.5, len(task.x)).view(-1, 1, 1, 1)
    return compare(task.x + noise * torch.randn(task.x.shape, generator=draw), task)


def pixels(picture):
    assert picture.kind == "png"
    return np.asarray(Image.open(io.BytesIO(picture.data)).convert("RGB"), dtype=int)


def texts(picture):
    """SVG text is drawn as shapes; the words survive as comments."""
    return re.findall(r"<!-- (.*?) -->", picture.data.decode())


def close(colour, target):
    return np.abs(colour - 255 * np.array(to_rgb(target))).max(-1) <= 2


def test_gallery_has_red_rows_over_blue_rows(task, judged):
    picture = gallery(judged.attack, task.x, task.mean, count=20, columns=10)
    canvas = pixels(picture)
    red, blue = close(canvas, TRAINING).sum(1), close(canvas, RECONSTRUCTION).sum(1)
    full = canvas.shape[1] // 2
    order = [("red" if r > full else "blue") for r, b in zip(red, blue, strict=True) if max(r, b) > full]
    runs = [c for i, c in enumerate(order) if i == 0 or order[i - 1] != c]
    assert runs == ["red", "blue", "red", "blue"]
    # Frames cover nothing of an image: each of 20 × 2 has the same number of frame pixels.
    assert close(canvas, TRAINING).sum() == pytest.approx(close(canvas, RECONSTRUCTION).sum(), rel=0.02)


def test_gallery_shows_the_pixels_of_the_best_image(task, judged):
    picture = gallery(judged.attack, task.x, task.mean, count=1)
    canvas = pixels(picture)
    best = int(judged.attack.ranking()[0])
    expected = (255 * (task.x + task.mean)[best, 0]).round().int().numpy()
    rows, columns = np.nonzero(close(canvas, TRAINING))
    inside = canvas[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1, 0]
    zoom = (inside.shape[0] - 8) // 28  # two pixels of frame, drawn at twice the size
    shown = inside[4 + zoom // 2 :: zoom, 4 + zoom // 2 :: zoom][:28, :28]
    np.testing.assert_allclose(shown, expected, atol=1)
    assert f"{float(judged.attack.ssim[best]):.2f}" in picture.alt


def test_gallery_by_distance_chosen_images_and_empty(task, judged):
    assert "distance from" in gallery(judged.attack, task.x, task.mean, by="distance").alt
    three = gallery(judged.attack, task.x, task.mean, chosen=[4, 2, 9])
    assert "3 training images" in three.alt
    with pytest.raises(ValueError, match="no images"):
        gallery(judged.attack, task.x, task.mean, chosen=[])
    with pytest.raises(ValueError, match="not pairs"):
        pairs(task.x, task.x[:3], alt="x")


def test_plain_grids_of_any_size():
    for shape in [(5, 3, 32, 32), (5, 1, 28, 28), (32, 3, 3, 3), (1, 3, 64, 64)]:
        picture = images(torch.randn(shape), columns=8, title="Kernels", alt="kernels")
        assert pixels(picture).shape[1] == 2 * picture.width


def test_galleries_are_compact():
    photos = torch.rand((30, 3, 32, 32))  # noise is the worst case of a photograph
    assert len(pairs(photos, photos, [""] * 30, alt="x").data) < 500_000


def make_boundary(n=30, margin=1.0):
    distance = torch.linspace(margin, 9.0, n, dtype=torch.float64)
    return Boundary("binary", distance, margin, torch.zeros(n, dtype=torch.float64))


def test_scatter_states_count_margin_and_threshold(judged):
    scores = judged.attack.ssim
    picture = scatter(Panel("binary", make_boundary(), scores, "train error 0 %"))
    count = f"{judged.attack.good} of 30 above 0.4"
    assert count in picture.alt and "margin 1" in picture.alt
    assert count in texts(picture) and "margin" in texts(picture)
    many = scatter([Panel(f"decay {d:g}", make_boundary(margin=d), scores) for d in (1e-3, 1e-2, 0.1, 0.5)])
    assert all(f"decay {d:g}" in many.alt for d in (1e-3, 1e-2, 0.1, 0.5))
    wrong = Boundary("binary", torch.tensor([-1.0, -2.0]), float("nan"), torch.zeros(2))
    assert "margin nan" in scatter(Panel("all wrong", wrong, [0.1, 0.5])).alt


def test_large_scatter_is_a_png():
    panel = Panel("n = 5,000", make_boundary(5000), np.linspace(0, 0.8, 5000))
    assert scatter(panel).kind == "png"


def test_curves_show_peak_and_baselines():
    line = Series("binary", [1e-4, 1e-3, 1e-2], [[1, 2, 3], [20, 30, 40], [5, 5, 5]])
    picture = curves([line], x_label="decay", y_label="good", log_x=True, baselines={"no decay": [3, 5]})
    assert "highest 30 at 0.001" in picture.alt and "Baseline no decay: 4" in picture.alt
    assert {"decay", "good", "binary", "no decay"} <= set(texts(picture))
    many = [Series(str(i), [1, 2], [[i], [i]]) for i in range(9)]
    assert curves(many, x_label="x", y_label="y").data


def test_heat_map_writes_every_number_and_leaves_gaps():
    picture = heat_map(
        [[1, 22], [float("nan"), 7]],
        ["a", "b"],
        [10, 50],
        row_label="width",
        column_label="n",
        value_label="share",
    )
    assert {"1", "22", "7", "a", "b"} <= set(texts(picture)) and "nan" not in texts(picture)
    assert "highest at width a, n 50" in picture.alt
    with pytest.raises(ValueError, match="do not fit"):
        heat_map([[1]], ["a", "b"], [1], row_label="r", column_label="c", value_label="v")


def test_rates_and_distributions(judged):
    inside, outside = judged.scores("attack"), judged.scores("held_out")
    curve = roc(inside, outside)
    assert f"area {curve.area:.2f}" in rate_curves({"SSIM": curve}, log_x=True).alt
    precision = rate_curves({"x": precision_recall([3, 2, 1], [True, False, True])}, kind="precision")
    assert precision.alt.startswith("Precision against recall")
    with pytest.raises(KeyError, match="roc or precision"):
        rate_curves({}, kind="lift")
    share = float((inside > 0.4).double().mean())
    shown = distributions({name: judged.scores(name) for name in ("attack", "held_out", "noise")})
    assert f"attack: {share:.1%} above 0.4" in shown.alt and "held out" in texts(shown)


def test_pictures_carry_their_description_and_save(task, judged, tmp_path):
    picture = gallery(judged.attack, task.x, task.mean, count=3, title='A "title" <b>')
    page = picture._repr_html_()
    assert "&quot;title&quot; &lt;b&gt;" in page and 'alt="' in page
    assert picture.save(tmp_path / "a.png").read_bytes() == picture.data
    with pytest.raises(ValueError, match=r"\.png"):
        picture.save(tmp_path / "a.svg")
    with pytest.raises(ValueError, match="alternative text"):
        Picture(b"", "png", " ", 10)


def test_the_same_figure_gives_the_same_file_and_leaves_no_settings_behind(judged):
    before = dict(matplotlib.rcParams)
    first, second = (distributions({"attack": judged.scores()}) for _ in range(2))
    assert first.data == second.data
    assert dict(matplotlib.rcParams) == before
    ElementTree.fromstring(first.data)


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast():
    assert contrast(INK, GROUND) > 7
    assert all(contrast(colour, "white") > 4.5 for colour in COLOURS.values())
    assert all(contrast(colour, GROUND) > 1.9 for colour in CYCLE)
    assert contrast(TRAINING, GROUND) > 4.5 and contrast(RECONSTRUCTION, GROUND) > 4.5


# How a colour appears, in linear RGB, to somebody without one kind of cone (Machado et al. 2009).
CONES = {
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deutan": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


def seen(colour, cones):
    """The colour in CIE L*a*b*, where a distance of about 2 can just be noticed."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    appears = np.clip(np.array(cones) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ appears / [0.9505, 1, 1.089]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", CONES)
def test_colours_are_told_apart_without_one_kind_of_cone(kind):
    def apart(a, b):
        return np.linalg.norm(seen(a, CONES[kind]) - seen(b, CONES[kind]))

    assert apart(TRAINING, RECONSTRUCTION) > 50
    assert min(apart(a, b) for a, b in combinations(CYCLE, 2)) > 15
    assert kind == "tritan" or apart("#ff0000", "#6e6e00") < 50, "red and olive are not, without these cones"


def test_judged_images_without_candidates_can_be_shown(task):
    few = judge(task.x[:2], task.x, task.mean)
    assert "from" in gallery(few, task.x, task.mean, by="distance", count=5).alt
