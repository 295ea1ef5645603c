// Package plugin exports a cloud that is written in Go for k8s.io/cloud-provider, unchanged, as a plugin for Flyball's cloud
// controllers:
//
//	import _ "example.com/cloud" // It registers the provider "shelf".
//
//	func init() { plugin.Export(plugin.Options{Name: "shelf", Version: "1.0.0"}) }
//
// What the provider has from cloud-controller-manager, it has from the host:
//
//   - Requests of net/http go through the host, to the servers that the policy names (package wasihttp).
//   - The file of `--cloud-config`, and variables of the environment, are credentials of the policy. When they change, the
//     cloud is opened again.
//   - Informers read the host's cache. They call no event handlers.
//   - Clients of the API server read, patch, create and delete as the plugin, within its policy. They can't watch.
//   - klog and events go to the host's log and the host's event recorder.
//
// Goroutines run only while a call runs: a provider must not depend on work in the background.
package plugin

import (
	"io"
	"runtime"

	cloudprovider "k8s.io/cloud-provider"

	"flyball.dev/sdk"
	"flyball.dev/sdk/cloud"
	_ "flyball.dev/sdk/wasihttp" // Requests of net/http go through the host.
)

// Options say what to export.
type Options struct {
	// Name is the plugin's name.
	Name    string
	Version string

	// Provider is the name under which the provider is registered with k8s.io/cloud-provider; Name by default.
	Provider string
	// Open opens the cloud, given the file of `--cloud-config` (nil if there is none), for a provider that is not
	// registered.
	Open func(config io.Reader) (cloudprovider.Interface, error)

	// Environment are variables that the provider reads. Those of the same names among the plugin's credentials take
	// precedence.
	Environment map[string]string
	// Credentials are the names of credentials that become variables of the environment.
	Credentials []string

	// Watches are the kinds that the provider reads through informers. By default, Nodes with all fields. If it watches
	// Nodes, calls have these fields of them.
	Watches []flyball.Watch
	// Permissions are what the provider's clients need.
	Permissions []flyball.Permission
	// Imports are those that need a grant: `raw` for paths of the API server such as `/version`.
	Imports []string
}

// Export makes the cloud this plugin's cloud. Call it in an init function of the main package, because the host does not
// run main. Natively it does nothing.
func Export(options Options) {
	cloud.Export(New(options))
}

// New returns the provider that Export exports, for tests.
func New(options Options) cloud.Provider {
	if options.Provider == "" {
		options.Provider = options.Name
	}
	if options.Watches == nil {
		options.Watches = []flyball.Watch{{Kind: "v1/Node", Fields: []string{"."}}}
	}
	return &provider{options: options}
}

// provider is the plugin. An instance serves one call at a time.
type provider struct {
	options Options
	// opened is the cloud of this instance; nil until a call needs it.
	opened *opened
	// calls is the number of calls of this instance.
	calls int
}

func (provider *provider) Describe(*flyball.Host) *flyball.Description {
	description := cloud.Describe(provider.options.Name, provider.options.Version)
	for _, watch := range provider.options.Watches {
		description.Watch(watch)
	}
	description.Permissions = provider.options.Permissions
	for _, name := range provider.options.Imports {
		description.Import(name)
	}
	return description
}

// Reconcile has nothing to do: the watches have no mapping.
func (provider *provider) Reconcile(*flyball.Host, flyball.Request) (flyball.Outcome, error) {
	return flyball.Done, nil
}

func (provider *provider) Capabilities(host *cloud.Host) (cloud.Capabilities, error) {
	opened, err := provider.open(host)
	if err != nil {
		return cloud.Capabilities{}, err
	}
	of := opened.cloud
	capabilities := cloud.Capabilities{ProviderName: of.ProviderName(), HasClusterID: of.HasClusterID()}
	_, capabilities.LoadBalancer = of.LoadBalancer()
	_, capabilities.Instances = of.Instances()
	_, capabilities.InstancesV2 = of.InstancesV2()
	_, capabilities.Zones = of.Zones()
	_, capabilities.Routes = of.Routes()
	return capabilities, nil
}

func (provider *provider) Call(host *cloud.Host, call cloud.Call) ([]byte, error) {
	answer, isKnown := methods[call.Method]
	if !isKnown {
		return nil, cloud.ErrNotImplemented
	}
	provider.calls++
	opened, err := provider.open(host)
	if err != nil {
		return nil, err
	}
	request := request{cloud: opened.cloud}
	if err := call.Decode(&request.arguments, &request.nodes); err != nil {
		return nil, err
	}
	document, err := answer(&request)
	settle()
	if err != nil {
		return nil, asError(err)
	}
	return document, nil
}

// turns is how often a call lets other goroutines run before it ends: a recorder passes an event on through several.
const turns = 32

// settle lets goroutines do what they can do without waiting, such as emitting the events of a call.
func settle() {
	for range turns {
		runtime.Gosched()
	}
}
