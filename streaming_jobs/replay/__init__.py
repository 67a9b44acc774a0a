"""Frames of the past through the mesh once more: what was refused, and what would be decided otherwise today."""
