"""Closed chains for users: assembly, statics, mimic joints."""
