package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/sdk"
)

// apiRequest is a request for the API server.
type apiRequest struct {
	request *http.Request
	body    []byte
	// kind is as in `apps/v1/Deployment`; empty if the path isn't one of a known kind.
	kind string
	// plural, namespace, name and subresource are empty if the path has none.
	plural, namespace, name, subresource string
}

func newAPIRequest(request *http.Request) (*apiRequest, error) {
	of := &apiRequest{request: request}
	if request.Body != nil {
		defer request.Body.Close()
		var err error
		if of.body, err = io.ReadAll(request.Body); err != nil {
			return nil, fmt.Errorf("can't read the body of %s %s: %w", request.Method, request.URL.Path, err)
		}
	}
	of.parse(strings.Split(strings.Trim(request.URL.Path, "/"), "/"))
	return of, nil
}

// parse takes `api/v1/…` and `apis/GROUP/VERSION/…` apart, where `…` is `namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE`,
// and ends early in most requests.
func (of *apiRequest) parse(parts []string) {
	var group, version string
	switch {
	case len(parts) > 2 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return
	}
	isOfNamespace := len(parts) > 2 && parts[0] == "namespaces" && (group != "" || parts[2] != "status" && parts[2] != "finalize")
	if isOfNamespace {
		of.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	of.plural, of.name, of.subresource = parts[0], parts[1], parts[2]
	kind, isKnown := kinds()[schema.GroupVersionResource{Group: group, Version: version, Resource: of.plural}]
	if isKnown {
		of.kind = strings.TrimPrefix(group+"/"+version+"/"+kind, "/")
	}
}

// kinds are the kinds of Kubernetes by the names in paths.
var kinds = sync.OnceValue(func() map[schema.GroupVersionResource]string {
	all := map[schema.GroupVersionResource]string{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		all[plural] = kind.Kind
	}
	return all
})

// read answers a GET. Paths of no known kind are read as they are, which needs the import `raw`.
func (of *apiRequest) read(host *flyball.Host) *http.Response {
	query := of.request.URL.Query()
	switch {
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		return of.refuse("a plugin's client of the API server can't watch: add the kind to Options.Watches, and read it through an informer")
	case of.kind == "" || of.subresource != "":
		path := of.request.URL.Path
		if text := of.request.URL.RawQuery; text != "" {
			path += "?" + text
		}
		return of.respond(host.Read(flyball.LivePath(path))[0])
	case of.name != "":
		return of.respond(host.Read(flyball.LiveObject(of.kind, of.namespace, of.name))[0])
	}
	list := flyball.LiveList(of.kind, of.namespace)
	for _, name := range []string{"labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch"} {
		if value := query.Get(name); value != "" {
			list = list.With(name, value)
		}
	}
	return of.respond(host.Read(list)[0])
}

// respond turns a result into a response.
func (of *apiRequest) respond(result flyball.Result) *http.Response {
	if result.Err == nil {
		body := result.JSON
		if len(body) == 0 {
			body = encode(metav1.Status{TypeMeta: statusType, Status: metav1.StatusSuccess})
		}
		return of.response(http.StatusOK, body)
	}
	status := metav1.Status{TypeMeta: statusType, Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: result.Err.Error()}
	var refused *flyball.APIError
	if errors.As(result.Err, &refused) {
		status.Reason, status.Message = metav1.StatusReason(refused.Reason), refused.Message
		if refused.Status >= http.StatusBadRequest {
			status.Code = int32(refused.Status)
		}
		if refused.RetryAfter > 0 {
			status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(refused.RetryAfter.Seconds())}
		}
	}
	return of.response(int(status.Code), encode(status))
}

// refuse responds that a plugin has no such requests.
func (of *apiRequest) refuse(why string) *http.Response {
	code := http.StatusMethodNotAllowed
	status := metav1.Status{TypeMeta: statusType, Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonMethodNotAllowed, Message: why}
	return of.response(code, encode(status))
}

func (of *apiRequest) response(code int, body []byte) *http.Response {
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", code, http.StatusText(code)),
		StatusCode: code,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       of.request,
	}
}

var statusType = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}

// encode writes a value that can always be written.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("%T can't be written as JSON: %v", value, err))
	}
	return text
}
