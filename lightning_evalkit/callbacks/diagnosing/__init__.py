"""The parts of Diagnose: they watch a running trainer and read its metrics at the end of an epoch."""
