"""Rebuild the embedded data set: `python -m reconlib.data.make_mini` (needs fashion_mnist in the data root).

The first 100 images of each class of Fashion-MNIST, training and test file alike, in file order: small
balanced tasks then select the very images that the full data set would give them.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np

from ..files import atomic_path
from .catalogue import IDX_FILES, dataset_info
from .formats import idx_bytes
from .sources import load_dataset

PER_CLASS = 100


def mini_files(root: str | Path | None = None) -> dict[str, bytes]:
    """The four idx files of the embedded data set, uncompressed, by name."""
    full = load_dataset("fashion_mnist", root)
    contents = []
    for images, labels in ((full.x_train, full.y_train), (full.x_test, full.y_test)):
        pixels, classes = images[:, 0].numpy(), labels.numpy().astype(np.uint8)
        first = [np.flatnonzero(classes == c)[:PER_CLASS] for c in range(len(full.class_names))]
        chosen = np.sort(np.concatenate(first))
        contents += [idx_bytes(pixels[chosen]), idx_bytes(classes[chosen])]
    return dict(zip(IDX_FILES, contents, strict=True))


def main() -> None:
    """Write the four gzipped files into the package and print their checksums for the catalogue."""
    folder = Path(dataset_info("fashion_mnist_mini").layouts[0].folder)
    for name, content in mini_files().items():
        with atomic_path(folder / f"{name}.gz") as temporary:
            temporary.write_bytes(gzip.compress(content, 9, mtime=0))
        print(hashlib.sha256(content).hexdigest(), name)


if __name__ == "__main__":
    main()
