"""Readers and writers: DH and MDH tables and general trees in TOML; bundled robots."""
