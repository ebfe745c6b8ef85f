"""Reaching: inverse kinematics, its differential form, and paths that are followed."""
