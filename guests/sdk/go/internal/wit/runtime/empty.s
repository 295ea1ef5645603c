// Lets functions without a body (go:linkname) compile.
