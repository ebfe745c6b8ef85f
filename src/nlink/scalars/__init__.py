"""The scalars an algorithm can run on: numbers, counting, graph nodes, symbols."""
