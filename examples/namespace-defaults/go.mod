module flyball.dev/examples/namespace-defaults

go 1.25

require flyball.dev/sdk v0.0.0

replace flyball.dev/sdk => ../../guests/sdk/go
