"""Training images back out of a trained network's weights."""

__version__ = "0.1.0"
