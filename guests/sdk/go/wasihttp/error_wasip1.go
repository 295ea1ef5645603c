package wasihttp

import (
	"fmt"

	wasi "flyball.dev/sdk/wasihttp/internal/bindings/wasi_http_types"
)

// requestError is a request that has no response.
type requestError struct {
	reason    string
	isTimeout bool
}

func (err *requestError) Error() string { return err.reason }

// Timeout says whether the server did not answer in time. Clients ask for it before they repeat a request.
func (err *requestError) Timeout() bool { return err.isTimeout }

// Temporary says the same.
func (err *requestError) Temporary() bool { return err.isTimeout }

// reasons are texts for the codes that have no value of their own and that a plugin is likely to meet.
var reasons = map[uint8]string{
	wasi.ErrorCodeDnsTimeout:             "looking up the name of the server takes too long",
	wasi.ErrorCodeDestinationNotFound:    "there is no such server",
	wasi.ErrorCodeDestinationUnavailable: "the server is not available",
	wasi.ErrorCodeDestinationIpProhibited: "the policy allows none of the addresses of the server: a name allows only public ones, unless " +
		"`http-hosts` has others",
	wasi.ErrorCodeConnectionRefused:      "the server refused the connection",
	wasi.ErrorCodeConnectionTerminated:   "the connection was closed",
	wasi.ErrorCodeConnectionTimeout:      "the connection took too long",
	wasi.ErrorCodeConnectionReadTimeout:  "the server took too long",
	wasi.ErrorCodeConnectionWriteTimeout: "the server took too long to read the request",
	wasi.ErrorCodeConnectionLimitReached: "the plugin has as many connections as `limits.connections` allows",
	wasi.ErrorCodeTlsProtocolError:       "the server does not speak TLS as expected",
	wasi.ErrorCodeTlsCertificateError:    "the certificate of the server is not valid for it",
	wasi.ErrorCodeHttpRequestDenied:      "the policy of the plugin does not name this server under `http-hosts`",
	wasi.ErrorCodeHttpResponseIncomplete: "the response is incomplete",
	wasi.ErrorCodeHttpResponseTimeout:    "the server took too long",
	wasi.ErrorCodeHttpProtocolError:      "the server does not speak HTTP as expected",
}

// timeouts are the codes that stand for the time that has passed.
var timeouts = map[uint8]bool{
	wasi.ErrorCodeDnsTimeout:             true,
	wasi.ErrorCodeConnectionTimeout:      true,
	wasi.ErrorCodeConnectionReadTimeout:  true,
	wasi.ErrorCodeConnectionWriteTimeout: true,
	wasi.ErrorCodeHttpResponseTimeout:    true,
}

func failure(code wasi.ErrorCode) error {
	text, isKnown := reasons[code.Tag()]
	if code.Tag() == wasi.ErrorCodeInternalError && code.InternalError().IsSome() {
		text, isKnown = code.InternalError().Some(), true
	}
	if !isKnown {
		text = fmt.Sprintf("the host could not send it (error %d of wasi:http)", code.Tag())
	}
	return &requestError{text, timeouts[code.Tag()]}
}
