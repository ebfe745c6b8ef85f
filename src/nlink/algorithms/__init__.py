"""One file for each algorithm, each citing its equations; see sweep.py for how they run."""
