"""Parts of Diagnose: the watch over a running trainer, and the readings at the end of an epoch."""
