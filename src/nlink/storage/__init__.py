"""Runs and studies on disk: arrays, events, records with their sums, and who may write them."""
