package cloud

import (
	"encoding/json"

	"flyball.dev/sdk"
	"flyball.dev/sdk/cloud/internal/bindings/flyball_cloud_credentials"
	api "flyball.dev/sdk/cloud/internal/bindings/flyball_cloud_types"
	_ "flyball.dev/sdk/cloud/internal/bindings/wit_exports"
	"flyball.dev/sdk/cloud/internal/guest"
	"flyball.dev/sdk/internal/clock"
	"flyball.dev/sdk/internal/wit/types"
)

// Export makes the provider this plugin's cloud. Call it in an init function of the main package, because the host does
// not run main. Natively it does nothing.
func Export(provider Provider) {
	flyball.Export(provider)
	host := NewHost(flyball.NewHost(flyball.Sandbox()), credential)
	guest.Capabilities = func() types.Result[[]uint8, api.Error] {
		clock.Sync()
		capabilities, err := AnswerCapabilities(provider, host)
		if err != nil {
			return refusal(err)
		}
		document, err := json.Marshal(capabilities)
		if err != nil {
			return refusal(err)
		}
		return types.Ok[[]uint8, api.Error](document)
	}
	guest.Call = func(method string, arguments, nodes []uint8) types.Result[[]uint8, api.Error] {
		clock.Sync()
		document, err := Answer(provider, host, Call{method, arguments, nodes})
		if err != nil {
			return refusal(err)
		}
		return types.Ok[[]uint8, api.Error](document)
	}
}

func credential(name string) (value []byte, found bool) {
	credential := flyball_cloud_credentials.Get(name)
	if credential.IsNone() {
		return nil, false
	}
	return credential.Some(), true
}

func refusal(err error) types.Result[[]uint8, api.Error] {
	of := AsError(err)
	after := types.None[uint32]()
	if of.Kind == KindRetry {
		after = types.Some(uint32(min(max(of.RetryAfter, 0).Milliseconds(), 1<<32-1)))
	}
	return types.Err[[]uint8](api.Error{Kind: string(of.Kind), Message: of.Message, Wrapped: of.Wrapped, RetryAfterMs: after})
}
