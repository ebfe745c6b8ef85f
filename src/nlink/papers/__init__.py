"""The papers' operators as objects, their tables, and their experiments run again."""
