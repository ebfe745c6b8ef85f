"""Laws and random mechanisms, for nlink's own tests and for users' robots.

>>> import nlink, nlink.testing
>>> report = nlink.testing.check(nlink.load("double_pendulum"), states=2, engine="numpy")
>>> report.ok
True
"""

from nlink.testing.check import CheckReport, CheckRow, check
from nlink.testing.closed import close_at_random, random_arms, random_closed_robot
from nlink.testing.laws import LAWS, Law
from nlink.testing.mechanisms import random_description, random_robot, robots
from nlink.testing.plausibility import Finding, findings
from nlink.testing.samples import Samples, samples

__all__ = [
    "LAWS",
    "CheckReport",
    "CheckRow",
    "Finding",
    "Law",
    "Samples",
    "check",
    "close_at_random",
    "findings",
    "random_arms",
    "random_closed_robot",
    "random_description",
    "random_robot",
    "robots",
    "samples",
]
