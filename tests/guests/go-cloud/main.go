// A cloud in Go that does what the method asks for, for host/plugin/tests/go_cloud.rs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"flyball.dev/sdk"
	"flyball.dev/sdk/cloud"
	_ "flyball.dev/sdk/wasihttp"
)

func init() { cloud.Export(provider{}) }

func main() {}

type provider struct{}

func (provider) Describe(*flyball.Host) *flyball.Description {
	return cloud.Describe("go-cloud", "1.0.0")
}

func (provider) Reconcile(*flyball.Host, flyball.Request) (flyball.Outcome, error) {
	return flyball.Done, nil
}

func (provider) Capabilities(*cloud.Host) (cloud.Capabilities, error) {
	return cloud.Capabilities{ProviderName: "go-cloud", HasClusterID: true, InstancesV2: true}, nil
}

func (provider) Call(host *cloud.Host, call cloud.Call) ([]byte, error) {
	var arguments struct{ URL, Method, Body, Name string }
	if err := call.Decode(&arguments, nil); err != nil {
		return nil, err
	}
	switch call.Method {
	case "send":
		return send(arguments.Method, arguments.URL, arguments.Body)
	case "both":
		return both(arguments.URL)
	case "sleep":
		return sleep()
	case "credential":
		value, found := host.Credential(arguments.Name)
		return json.Marshal([]any{string(value), found})
	case "nodes":
		return call.Nodes, nil
	case "panic":
		return nil, fail(nil)
	case "InstanceNotFound":
		return nil, fmt.Errorf("a: %w", cloud.ErrInstanceNotFound)
	case "Retry":
		return nil, cloud.Retry("busy", 5*time.Second)
	}
	return nil, cloud.ErrNotImplemented
}

// send sends a request by a transport of its own, as libraries for clouds do, and returns the response.
func send(method, url, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Asked", "yes")
	client := http.Client{Transport: &http.Transport{MaxIdleConns: 1}}
	response, err := client.Do(request)
	if err != nil {
		var timeout interface{ Timeout() bool }
		return nil, fmt.Errorf("%w (timeout: %t)", err, errors.As(err, &timeout) && timeout.Timeout())
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"status": response.StatusCode, "answered": response.Header.Get("X-Answered"), "body": string(content),
	})
}

// both sends two requests in goroutines, and waits for both.
func both(url string) ([]byte, error) {
	results := make(chan error)
	for range 2 {
		go func() {
			_, err := send(http.MethodGet, url, "")
			results <- err
		}()
	}
	return []byte("{}"), errors.Join(<-results, <-results)
}

// sleep returns how long a sleep of 30 ms took, and a timer that ended it, by the plugin's clock.
func sleep() ([]byte, error) {
	began := time.Now()
	timer := time.After(20 * time.Millisecond)
	time.Sleep(30 * time.Millisecond)
	<-timer
	return json.Marshal(time.Since(began).Milliseconds())
}

func fail(of *strings.Builder) error {
	return errors.New(of.String()) // the bug
}
