"""Real data, verified: data sets in their original file order, and the papers' tasks on them."""

from .errors import ChecksumMismatch, DataError, DataNotFound, UnsafeFile
from .sources import Dataset, data_root, load_dataset
from .tasks import Task, available, load_task

__all__ = [
    "ChecksumMismatch",
    "DataError",
    "DataNotFound",
    "Dataset",
    "Task",
    "UnsafeFile",
    "available",
    "data_root",
    "load_dataset",
    "load_task",
]
