"""nlink and its peers side by side."""
