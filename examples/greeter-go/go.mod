module greeter

go 1.25

require go.bytecodealliance.org/pkg v0.4.0

// A small runtime of our own, under the name that the generated bindings import: see its package comments.
replace go.bytecodealliance.org/pkg => ./runtime
