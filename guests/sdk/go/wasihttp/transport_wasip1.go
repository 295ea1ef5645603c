package wasihttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
	_ "unsafe" // for linkname

	"flyball.dev/sdk/internal/clock"
	"flyball.dev/sdk/internal/wit/types"
	"flyball.dev/sdk/wasihttp/internal/bindings/wasi_http_outgoing_handler"
	wasi "flyball.dev/sdk/wasihttp/internal/bindings/wasi_http_types"
	"flyball.dev/sdk/wasihttp/internal/bindings/wasi_io_streams"
)

// hostRoundTrip is what the replaced function RoundTrip of the standard library calls.
//
//go:linkname hostRoundTrip net/http.hostRoundTrip
var hostRoundTrip func(*http.Request) (*http.Response, error)

func init() { hostRoundTrip = roundTrip }

// The most bytes that a stream accepts at once, and that are read at once.
const (
	writtenAtOnce = 4096
	readAtOnce    = 64 << 10
)

// dropped are headers that belong to the connection, which the host makes.
var dropped = []string{"Connection", "Host", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Content-Length"}

func roundTrip(request *http.Request) (*http.Response, error) {
	body, err := readBody(request)
	if err != nil {
		return nil, err
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	if request.URL.Scheme != "http" && request.URL.Scheme != "https" || request.URL.Host == "" {
		return nil, fmt.Errorf("can't send a request to %q: write http://server/path or https://server/path", request.URL)
	}
	if request.Host != "" && request.Host != request.URL.Host {
		return nil, fmt.Errorf("can't send a request to %s under the name %s: the host sends the name of the server", request.URL.Host, request.Host)
	}
	response, err := exchange(request, body)
	// Time has passed while the instance waited.
	clock.Sync()
	if err != nil {
		if ended := request.Context().Err(); ended != nil {
			return nil, ended
		}
		return nil, err
	}
	return response, nil
}

// readBody reads and closes the body of a request.
func readBody(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	defer request.Body.Close()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, fmt.Errorf("can't read the body of the request %s %s: %w", request.Method, request.URL.Host, err)
	}
	return body, nil
}

func exchange(request *http.Request, body []byte) (*http.Response, error) {
	outgoing, err := outgoing(request, body)
	if err != nil {
		return nil, err
	}
	var stream *wasi.OutgoingBody
	if len(body) > 0 {
		stream = outgoing.Body().Ok()
	}
	handled := wasi_http_outgoing_handler.Handle(outgoing, types.Some(options(request.Context())))
	if handled.IsErr() {
		return nil, failure(handled.Err())
	}
	future := handled.Ok()
	defer future.Drop()
	if stream != nil {
		if err := write(stream, body); err != nil {
			return nil, err
		}
	}
	pollable := future.Subscribe()
	pollable.Block()
	pollable.Drop()
	// The outer result fails only if the response was taken before.
	response := future.Get().Some().Ok()
	if response.IsErr() {
		return nil, failure(response.Err())
	}
	return read(request, response.Ok())
}

func outgoing(request *http.Request, body []byte) (*wasi.OutgoingRequest, error) {
	var headers []types.Tuple2[string, []uint8]
	add := func(name, value string) {
		headers = append(headers, types.Tuple2[string, []uint8]{F0: name, F1: []uint8(value)})
	}
	for name, values := range request.Header {
		if slices.Contains(dropped, name) {
			continue
		}
		for _, value := range values {
			add(name, value)
		}
	}
	if _, isSet := request.Header["User-Agent"]; !isSet {
		add("User-Agent", "Go-http-client/1.1")
	}
	if len(body) > 0 {
		add("Content-Length", strconv.Itoa(len(body)))
	}
	fields := wasi.FieldsFromList(headers)
	if fields.IsErr() {
		return nil, fmt.Errorf("can't send the request %s %s: a header is invalid", request.Method, request.URL.Host)
	}
	of := wasi.MakeOutgoingRequest(fields.Ok())
	scheme := wasi.MakeSchemeHttps()
	if request.URL.Scheme == "http" {
		scheme = wasi.MakeSchemeHttp()
	}
	isSet := of.SetMethod(method(request.Method)).IsOk() &&
		of.SetScheme(types.Some(scheme)).IsOk() &&
		of.SetAuthority(types.Some(request.URL.Host)).IsOk() &&
		of.SetPathWithQuery(types.Some(request.URL.RequestURI())).IsOk()
	if !isSet {
		of.Drop()
		return nil, fmt.Errorf("can't send the request %s %s: the method or the URL is invalid, or too long", request.Method, request.URL)
	}
	return of, nil
}

func method(name string) wasi.Method {
	switch name {
	case "", http.MethodGet:
		return wasi.MakeMethodGet()
	case http.MethodHead:
		return wasi.MakeMethodHead()
	case http.MethodPost:
		return wasi.MakeMethodPost()
	case http.MethodPut:
		return wasi.MakeMethodPut()
	case http.MethodPatch:
		return wasi.MakeMethodPatch()
	case http.MethodDelete:
		return wasi.MakeMethodDelete()
	case http.MethodOptions:
		return wasi.MakeMethodOptions()
	}
	return wasi.MakeMethodOther(name)
}

func options(ctx context.Context) *wasi.RequestOptions {
	limit := Timeout
	if deadline, isSet := ctx.Deadline(); isSet {
		limit = max(time.Until(deadline), time.Millisecond)
	}
	of, nanos := wasi.MakeRequestOptions(), types.Some(uint64(limit))
	of.SetConnectTimeout(nanos)
	of.SetFirstByteTimeout(nanos)
	of.SetBetweenBytesTimeout(nanos)
	return of
}

func write(body *wasi.OutgoingBody, content []byte) error {
	stream := body.Write().Ok()
	for part := range slices.Chunk(content, writtenAtOnce) {
		written := stream.BlockingWriteAndFlush(part)
		if written.IsErr() && written.Err().Tag() == wasi_io_streams.StreamErrorLastOperationFailed {
			stream.Drop()
			body.Drop()
			return streamFailure("can't send the body of a request", written.Err())
		}
		if written.IsErr() {
			// The server has responded before it read all, or the connection failed: the response says which.
			break
		}
	}
	stream.Drop()
	if finished := wasi.OutgoingBodyFinish(body, types.None[*wasi.Fields]()); finished.IsErr() {
		return failure(finished.Err())
	}
	return nil
}

func read(request *http.Request, response *wasi.IncomingResponse) (*http.Response, error) {
	defer response.Drop()
	header := http.Header{}
	fields := response.Headers()
	for _, field := range fields.Entries() {
		header.Add(field.F0, string(field.F1))
	}
	fields.Drop()
	body := response.Consume().Ok()
	defer body.Drop()
	stream := body.Stream().Ok()
	defer stream.Drop()
	var content []byte
	for {
		part := stream.BlockingRead(readAtOnce)
		if part.IsOk() {
			content = append(content, part.Ok()...)
			continue
		}
		if part.Err().Tag() == wasi_io_streams.StreamErrorLastOperationFailed {
			return nil, streamFailure("can't read a response", part.Err())
		}
		break
	}
	code := int(response.Status())
	return &http.Response{
		Status:     strconv.Itoa(code) + " " + http.StatusText(code),
		StatusCode: code,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(content)),
		ContentLength: int64(len(content)),
		Request:       request,
	}, nil
}

func streamFailure(what string, failed wasi_io_streams.StreamError) error {
	reason := failed.LastOperationFailed()
	defer reason.Drop()
	return fmt.Errorf("%s: %s", what, reason.ToDebugString())
}
