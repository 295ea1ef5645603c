package plugin

import (
	"fmt"
	"net/http"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"flyball.dev/sdk"
)

// clients builds clients of the API server. They act as the plugin, through the host.
type clients struct{ host *flyball.Host }

var _ cloudprovider.ControllerClientBuilder = clients{}

func (clients clients) Config(name string) (*rest.Config, error) {
	return &rest.Config{
		Host:      "http://api-server.invalid",
		UserAgent: name,
		Transport: requests{clients.host},
		// Not in Protobuf, which clients of Kubernetes' own kinds prefer.
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
		// The host limits the plugin's requests.
		QPS: -1,
	}, nil
}

func (clients clients) ConfigOrDie(name string) *rest.Config {
	config, err := clients.Config(name)
	if err != nil {
		panic(err)
	}
	return config
}

func (clients clients) Client(name string) (clientset.Interface, error) {
	config, err := clients.Config(name)
	if err != nil {
		return nil, err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("can't make a client of the API server for %s: %w", name, err)
	}
	return client, nil
}

func (clients clients) ClientOrDie(name string) clientset.Interface {
	client, err := clients.Client(name)
	if err != nil {
		panic(err)
	}
	return client
}

// requests sends the requests of clients as calls of the host.
type requests struct{ host *flyball.Host }

func (requests requests) RoundTrip(request *http.Request) (*http.Response, error) {
	of, err := newAPIRequest(request)
	if err != nil {
		return nil, err
	}
	if of.isEvent() {
		return of.emit(requests.host), nil
	}
	switch request.Method {
	case http.MethodGet:
		return of.read(requests.host), nil
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return of.write(requests.host), nil
	}
	return of.refuse("a plugin's client of the API server has no requests with the method " + request.Method), nil
}
