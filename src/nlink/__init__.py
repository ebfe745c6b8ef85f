"""nlink: the dynamics of robots and other multibody mechanisms, O(n), from Python."""
from nlink.robot import Robot, load
from nlink.formats.load import bundled as robots
__version__ = "0.1.0"
