// Package cloud exports a cloud: a plugin that the cloud controllers call for instances, load balancers and routes.
//
// A provider gets the documents of the world, as JSON: `wit/cloud/types.wit` lists the methods with their keys. A cloud
// that is written for k8s.io/cloud-provider is exported by the module flyball.dev/sdk/cloudprovider instead, which
// implements [Provider] for it.
//
// An instance serves one call at a time, and waits for the cloud: time.Sleep waits, and so do requests of the package
// net/http, which the package wasihttp sends. The host runs many instances at once, and drops them between calls, so
// nothing may depend on their memory.
package cloud

import (
	"encoding/json"
	"fmt"

	"flyball.dev/sdk"
)

// ConfigName is the name of the credential that holds the file of `--cloud-config`.
const ConfigName = "cloud-config"

// Provider is a cloud.
type Provider interface {
	// Controller describes the plugin: start with [Describe]. Most providers have no keys to reconcile.
	flyball.Controller

	// Capabilities returns what the cloud supports. After an error, the host asks again.
	Capabilities(host *Host) (Capabilities, error)

	// Call answers a method. It returns the document of the method's results. An error of the type [Error] tells the
	// controllers its kind.
	Call(host *Host, call Call) (document []byte, err error)
}

// Capabilities are the parts of a cloud that it supports.
type Capabilities struct {
	// ProviderName is the scheme of provider IDs.
	ProviderName string `json:"providerName"`
	// HasClusterID says whether the cloud can tell the resources of this cluster from those of others.
	HasClusterID bool `json:"hasClusterID"`
	LoadBalancer bool `json:"loadBalancer"`
	Instances    bool `json:"instances"`
	InstancesV2  bool `json:"instancesV2"`
	Zones        bool `json:"zones"`
	Routes       bool `json:"routes"`
}

// Call is a call of a method.
type Call struct {
	// Method is, for example, `EnsureLoadBalancer`.
	Method string
	// Arguments is a document with the arguments, without nodes.
	Arguments []byte
	// Nodes is a JSON array of Nodes; empty if the method takes none.
	Nodes []byte
}

// Decode parses the arguments, and the nodes into a slice. Nil stands for what is not needed.
func (call Call) Decode(arguments, nodes any) error {
	for _, part := range []struct {
		name string
		text []byte
		into any
	}{{"arguments", call.Arguments, arguments}, {"nodes", call.Nodes, nodes}} {
		if part.into == nil || len(part.text) == 0 {
			continue
		}
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return fmt.Errorf("the %s of %s are malformed: %w", part.name, call.Method, err)
		}
	}
	return nil
}

// Host is the host's functions for a provider.
type Host struct {
	*flyball.Host
	credentials func(name string) (value []byte, found bool)
}

// NewHost returns a host with these functions, for tests; see the package cloudtest.
func NewHost(host *flyball.Host, credentials func(name string) (value []byte, found bool)) *Host {
	return &Host{host, credentials}
}

// Credential returns the value of a credential that the policy gives to this provider: a key of its Secret, or a file of
// its folder. [ConfigName] is the file of `--cloud-config`. Values change, so ask in each call.
func (host *Host) Credential(name string) (value []byte, found bool) { return host.credentials(name) }

// Describe starts the description of a provider.
func Describe(name, version string) *flyball.Description { return flyball.Describe(name, version) }

// Answer calls a method, as the host and cloudtest do. A panic becomes an error with the place where it happened.
func Answer(provider Provider, host *Host, call Call) (document []byte, err error) {
	defer func() {
		if panicked := flyball.Recovered(recover()); panicked != nil {
			document, err = nil, panicked
		}
	}()
	return provider.Call(host, call)
}

// AnswerCapabilities asks for the capabilities, as the host and cloudtest do.
func AnswerCapabilities(provider Provider, host *Host) (capabilities Capabilities, err error) {
	defer func() {
		if panicked := flyball.Recovered(recover()); panicked != nil {
			capabilities, err = Capabilities{}, panicked
		}
	}()
	return provider.Capabilities(host)
}
