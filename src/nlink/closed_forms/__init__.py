"""Closed forms: graphs as SymPy expressions, simplified and printed."""
