package samplecloud

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// An instance, as the API shows it.
type instance struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	Zone      string            `json:"zone"`
	Region    string            `json:"region"`
	State     string            `json:"state"`
	Addresses []v1.NodeAddress  `json:"addresses"`
	Labels    map[string]string `json:"labels"`
}

func (c *cloud) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	found, err := c.instanceOf(ctx, node)
	return found != nil, err
}

func (c *cloud) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	found, err := c.instanceOf(ctx, node)
	return found != nil && found.State == "stopped", err
}

func (c *cloud) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	found, err := c.instanceOf(ctx, node)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:       Name + "://" + found.ID,
		InstanceType:     found.Type,
		NodeAddresses:    found.Addresses,
		Zone:             found.Zone,
		Region:           found.Region,
		AdditionalLabels: found.Labels,
	}, nil
}

// instanceOf returns the instance of a node, or nil if it is gone.
func (c *cloud) instanceOf(ctx context.Context, node *v1.Node) (*instance, error) {
	id, ok := instanceID(node)
	if !ok {
		return c.instanceNamed(ctx, node.Name)
	}
	found := &instance{}
	err := c.get(ctx, "instances/"+id, found)
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// instanceNamed returns the instance with this name, or nil if there is none.
func (c *cloud) instanceNamed(ctx context.Context, name string) (*instance, error) {
	var list struct {
		Instances []*instance `json:"instances"`
	}
	if err := c.get(ctx, "instances?name="+name, &list); err != nil || len(list.Instances) == 0 {
		return nil, err
	}
	return list.Instances[0], nil
}

// instanceID returns the ID in a node's provider ID, if it is one of this cloud.
func instanceID(node *v1.Node) (string, bool) {
	return strings.CutPrefix(node.Spec.ProviderID, Name+"://")
}
