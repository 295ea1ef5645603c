// Package samplecloud is a provider in Go for the sample cloud, whose API examples/cloud-sample documents. It sends the same
// requests as the provider in Rust there, so that the calls of both controller managers can be compared.
package samplecloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	cloudprovider "k8s.io/cloud-provider"
)

// Name is the provider's name, and the scheme of its provider IDs.
const Name = "sample"

func init() {
	cloudprovider.RegisterCloudProvider(Name, open)
}

// cloud implements all interfaces of the provider that its controllers call.
type cloud struct {
	*client
	// comparesAddresses says whether routes lead to the addresses of nodes.
	comparesAddresses bool
}

var (
	_ cloudprovider.Interface    = &cloud{}
	_ cloudprovider.InstancesV2  = &cloud{}
	_ cloudprovider.LoadBalancer = &cloud{}
	_ cloudprovider.Routes       = &cloud{}
)

// open reads the file of --cloud-config.
func open(file io.Reader) (cloudprovider.Interface, error) {
	if file == nil {
		return nil, errors.New("the sample cloud needs --cloud-config")
	}
	var config struct {
		URL           string `json:"url"`
		NodeAddresses bool   `json:"nodeAddresses"`
	}
	if err := json.NewDecoder(file).Decode(&config); err != nil {
		return nil, fmt.Errorf("the configuration of the sample cloud is malformed: %w", err)
	}
	return &cloud{newClient(config.URL), config.NodeAddresses}, nil
}

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

func (c *cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

func (c *cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

func (c *cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

func (c *cloud) Routes() (cloudprovider.Routes, bool) { return c, true }

func (c *cloud) ProviderName() string { return Name }

func (c *cloud) HasClusterID() bool { return true }
