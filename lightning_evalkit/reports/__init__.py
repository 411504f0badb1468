"""Evaluations into snapshots of an epoch, and these into figures and texts for any logger."""
