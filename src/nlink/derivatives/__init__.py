"""Derivatives for users: products, parameters, functions of their own."""
