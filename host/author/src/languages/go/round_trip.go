// Replaces a file of the standard library in plugins: requests go through the host.

package http

import _ "unsafe" // for linkname

// Packages refer to this name by linkname, as in the original file.
//
//go:linkname badRoundTrip net/http.(*Transport).RoundTrip
func badRoundTrip(*Transport, *Request) (*Response, error)

// hostRoundTrip is set by the package flyball.dev/sdk/wasihttp.
//
//go:linkname hostRoundTrip
var hostRoundTrip func(*Request) (*Response, error)

// RoundTrip implements the [RoundTripper] interface. The transport's settings for connections have no effect: the host
// makes them.
func (t *Transport) RoundTrip(req *Request) (*Response, error) {
	if t == nil {
		panic("transport is nil")
	}
	return hostRoundTrip(req)
}
