"""What goes on until it is done: integrations, their events, and what later iterates."""
