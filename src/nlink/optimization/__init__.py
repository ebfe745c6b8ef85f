"""Optimal control: trajectories that cost least, and controllers that look ahead."""
