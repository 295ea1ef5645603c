module flyball.dev/tests/guests/go

go 1.25

require (
	flyball.dev/examples/greeter-go v0.0.0
	flyball.dev/sdk v0.0.0
)

replace (
	flyball.dev/examples/greeter-go => ../../../examples/greeter-go
	flyball.dev/sdk => ../../../guests/sdk/go
)
