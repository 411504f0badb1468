"""Turns evaluations into snapshots of an epoch, and snapshots into figures and texts for any logger."""
