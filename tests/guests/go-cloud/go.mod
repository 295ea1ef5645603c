module flyball.dev/tests/guests/go-cloud

go 1.25

require flyball.dev/sdk v0.0.0

replace flyball.dev/sdk => ../../../guests/sdk/go
