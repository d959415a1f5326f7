"""Scripted policies for MiniWoB++: they see what the tools answer, and nothing else."""

from . import clicking, drawing, forms, mail, moving, reading, visual  # noqa: F401  (each registers its tasks)
from .base import POLICIES  # noqa: F401
