"""What is settled before NumPy is imported, and modules that are left out."""

import os
from importlib.util import find_spec

# the cores belong to the workers of pytest: BLAS with as many threads for each of them would spend
# three times the time, most of it waiting
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# the package that they are for is not installed
NEEDS = {"torch": "src/nlink/backends/torch_calls.py",
         "stable_baselines3": "src/nlink/gym/stable_baselines.py"}
collect_ignore = [path for package, path in NEEDS.items() if find_spec(package) is None]
