package samplecloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"
)

// timeout is how long a request may take.
const timeout = 30 * time.Second

// errNotFound means that the cloud has no such object.
var errNotFound = errors.New("not found")

// A client sends requests to the sample cloud.
type client struct {
	url  string
	http http.Client
}

func newClient(url string) *client {
	return &client{strings.TrimRight(url, "/"), http.Client{Timeout: timeout}}
}

// get reads an object. It fails with errNotFound if the cloud has none.
func (c *client) get(ctx context.Context, path string, object any) error {
	return c.send(ctx, http.MethodGet, path, nil, object)
}

// delete deletes an object. It is no error if the cloud has none.
func (c *client) delete(ctx context.Context, path string) error {
	err := c.send(ctx, http.MethodDelete, path, nil, nil)
	if errors.Is(err, errNotFound) {
		return nil
	}
	return err
}

// send sends a request, and decodes the response into result unless that is nil.
func (c *client) send(ctx context.Context, method, path string, body, result any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return fmt.Errorf("can't encode the request %s %s: %w", method, path, err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+"/v1/"+path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("can't make the request %s %s: %w", method, path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		klog.Warningf("%s %s: %v", method, path, err)
		return errors.New("the sample cloud does not respond")
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return errNotFound
	case response.StatusCode == http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil {
			seconds = 1
		}
		return api.NewRetryError(refusal(response), time.Duration(seconds)*time.Second)
	case response.StatusCode < 200 || response.StatusCode > 299:
		return errors.New(refusal(response))
	case result == nil:
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(result); err != nil {
		return fmt.Errorf("the cloud's response with status %d is malformed: %w", response.StatusCode, err)
	}
	return nil
}

// refusal returns the code and the message of an error.
func refusal(response *http.Response) string {
	var body struct {
		Error struct{ Code, Message string }
	}
	if json.NewDecoder(response.Body).Decode(&body) != nil || body.Error.Code == "" {
		return fmt.Sprintf("the sample cloud responds with status %d", response.StatusCode)
	}
	return body.Error.Code + ": " + body.Error.Message
}
