"""Programs and iterations as WebAssembly, for browsers: modules written as bytes, by no other tool.

    binary       words of WebAssembly, functions and modules
    expressions  straight-line code as a function's body
    library      sine, cosine and other functions, from their texts
    statements   an iteration's statements
    machine      a module that runs one process of an iteration
"""
