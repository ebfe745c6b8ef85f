"""Tables, plots and reports."""
