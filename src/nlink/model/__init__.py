"""Mechanisms: joints, bodies, frames; validated once, immutable."""
