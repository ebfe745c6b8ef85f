"""Programs and iterations as machine code, made by LLVM for this host. It knows no mechanics."""
