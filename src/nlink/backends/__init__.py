"""Programs and iterations in other languages: machine code, C."""
