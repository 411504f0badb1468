"""Counts into what they say beyond themselves: here, the same classifier at another prevalence."""

from lightning_evalkit.intervals.projection import at_prevalence, crossing_prevalence

__all__ = ["at_prevalence", "crossing_prevalence"]
