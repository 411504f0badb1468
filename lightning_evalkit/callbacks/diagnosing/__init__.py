"""Parts of Diagnose: what is watched while a run goes on, and what is read at the end of an epoch."""
