"""Programs and iterations as WebAssembly, for browsers: modules written as bytes, by no other tool.

    wasm_module        words of WebAssembly, functions and modules
    stack_code         straight-line code as a function's body
    wasm_library       sine, cosine and other functions, from their texts
    program_functions  programs as functions, arrays to arrays
    wasm_statements    an iteration's statements
    wasm_machine       a module that runs one process of an iteration
    module_files       a module of programs, with a loader in JavaScript
"""
