"""Identification: from logs of motions to the parameters of a robot."""
