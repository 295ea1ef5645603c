// Package cloudtest calls a provider as the cloud controllers do, without a cluster or a sandbox.
//
//	test := cloudtest.New(provider, map[string]string{"cloud-config": `{"url": "…"}`})
//	var result struct{ Bool bool }
//	err := test.Call("InstanceExists", nil, nodes, &result)
//
// The provider runs in the test's process. A server of the package httptest stands for the cloud.
package cloudtest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"flyball.dev/sdk"
	"flyball.dev/sdk/cloud"
)

// Cloud is a provider with its credentials.
type Cloud struct {
	// Credentials are the values that the provider's policy gives, by their names. A test may change them.
	Credentials map[string]string

	provider cloud.Provider
	host     *cloud.Host
}

// New returns a provider for tests. It has no cluster: see [Cloud.On].
func New(provider cloud.Provider, credentials map[string]string) *Cloud {
	test := &Cloud{Credentials: credentials, provider: provider}
	return test.On(flyball.NewHost(logger{}))
}

// On gives the provider these functions of a host, such as those of a cluster of the package flyballtest.
func (test *Cloud) On(host *flyball.Host) *Cloud {
	test.host = cloud.NewHost(host, func(name string) ([]byte, bool) {
		value, found := test.Credentials[name]
		return []byte(value), found
	})
	return test
}

// Capabilities returns what the cloud supports.
func (test *Cloud) Capabilities() (cloud.Capabilities, error) {
	return cloud.AnswerCapabilities(test.provider, test.host)
}

// Call calls a method. The arguments become a document, and the nodes an array, unless they are nil. The document of the
// results is parsed into the result, unless that is nil. The error is a [cloud.Error], as the controllers get it.
func (test *Cloud) Call(method string, arguments, nodes, result any) error {
	call := cloud.Call{Method: method}
	for _, part := range []struct {
		from any
		into *[]byte
	}{{arguments, &call.Arguments}, {nodes, &call.Nodes}} {
		if part.from == nil {
			continue
		}
		text, err := json.Marshal(part.from)
		if err != nil {
			return fmt.Errorf("cloudtest: %T can't be written as JSON: %w", part.from, err)
		}
		*part.into = text
	}
	document, err := cloud.Answer(test.provider, test.host, call)
	switch {
	case err != nil:
		return cloud.AsError(err)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(document, result); err != nil {
		return fmt.Errorf("the result of %s is malformed: %w", method, err)
	}
	return nil
}

// logger is a world without a cluster: it has a log and a clock, and what would reach a cluster is denied. Other functions
// panic.
type logger struct{ flyball.World }

var errNoCluster = &flyball.APIError{
	Status: 403, Reason: "Denied", Message: "the test has no cluster: see Cloud.On of the package cloudtest", Effect: flyball.EffectNone,
}

func (logger) ListerGet(string, string, string, []string) ([]byte, error) { return nil, errNoCluster }
func (logger) ListerList(flyball.Query, flyball.Projection, int) (flyball.Page, error) {
	return flyball.Page{}, errNoCluster
}
func (logger) Read(reads []flyball.LiveRead) []flyball.Result { return denied(len(reads)) }
func (logger) Write(batch flyball.Batch) []flyball.Result     { return denied(len(batch.Writes)) }

func denied(count int) []flyball.Result {
	results := make([]flyball.Result, count)
	for i := range results {
		results[i].Err = errNoCluster
	}
	return results
}

func (logger) Emit(event flyball.Event) {
	slog.Info("event: "+event.Message, "type", event.Type, "reason", event.Reason, "about", event.About.Name)
}

func (logger) Now() time.Time               { return time.Now() }
func (logger) Config(string) (string, bool) { return "", false }
func (logger) LogEnabled(level slog.Level) bool {
	return slog.Default().Enabled(context.Background(), level)
}

func (logger) Log(level slog.Level, message string, fields []flyball.LogField) {
	attributes := make([]slog.Attr, len(fields))
	for i, field := range fields {
		attributes[i] = slog.String(field.Name, field.Value)
	}
	slog.LogAttrs(context.Background(), level, message, attributes...)
}
