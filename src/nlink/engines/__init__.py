"""A request for a computation, its formulation, its engine, and what it costs."""
