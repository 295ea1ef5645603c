// Package wasihttp sends HTTP requests from the sandbox, through the host and to the servers that the policy names under
// `http-hosts`.
//
// A plugin that imports it can use net/http and all libraries on it as they are:
//
//	import _ "flyball.dev/sdk/wasihttp"
//
//	response, err := http.Get("https://cloud.example.com/v1/instances")
//
// `flyball build` replaces the function RoundTrip of [http.Transport] in such a plugin, which then calls this package.
// Natively, in tests, requests take their usual way.
//
// The host makes the connections, and checks certificates against the public authorities. So the settings of a transport
// have no effect: proxies, dialers, TLS. A response is read whole before RoundTrip returns, and the instance waits for it:
// goroutines don't run meanwhile. The request's deadline is the limit; without one it is [Timeout].
package wasihttp

import "time"

// Timeout is the limit of a request without a deadline, for the connection, for the first byte of the response, and between
// two parts of it.
const Timeout = 30 * time.Second
