package samplecloud

import (
	"context"
	"errors"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// A route, as the API shows it and takes it.
type route struct {
	ID          string           `json:"id"`
	Destination string           `json:"destination"`
	Instance    string           `json:"instance"`
	Addresses   []v1.NodeAddress `json:"addresses"`
	// Node is the name of the instance; empty if that is gone.
	Node      string `json:"node,omitempty"`
	Blackhole bool   `json:"blackhole,omitempty"`
}

// inID replaces what a path separates.
var inID = strings.NewReplacer(".", "-", ":", "-", "/", "-")

func (c *cloud) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	var list struct {
		Routes []route `json:"routes"`
	}
	if err := c.get(ctx, network(clusterName), &list); err != nil {
		return nil, err
	}
	var routes []*cloudprovider.Route
	for _, one := range list.Routes {
		routes = append(routes, &cloudprovider.Route{
			Name:                one.ID,
			TargetNode:          types.NodeName(one.Node),
			EnableNodeAddresses: c.comparesAddresses,
			TargetNodeAddresses: one.Addresses,
			DestinationCIDR:     one.Destination,
			Blackhole:           one.Blackhole,
		})
	}
	return routes, nil
}

func (c *cloud) CreateRoute(ctx context.Context, clusterName, nameHint string, wanted *cloudprovider.Route) error {
	target, err := c.instanceNamed(ctx, string(wanted.TargetNode))
	if err != nil {
		return err
	}
	if target == nil {
		return cloudprovider.InstanceNotFound
	}
	request := route{
		ID:          nameHint + "-" + inID.Replace(wanted.DestinationCIDR),
		Destination: wanted.DestinationCIDR,
		Instance:    target.ID,
		Addresses:   append([]v1.NodeAddress{}, wanted.TargetNodeAddresses...),
	}
	err = c.send(ctx, http.MethodPost, network(clusterName), request, nil)
	if errors.Is(err, errNotFound) {
		return cloudprovider.InstanceNotFound
	}
	return err
}

func (c *cloud) DeleteRoute(ctx context.Context, clusterName string, one *cloudprovider.Route) error {
	return c.delete(ctx, network(clusterName)+"/"+one.Name)
}

// network returns the path of the routes of a cluster's network.
func network(clusterName string) string {
	return "networks/" + clusterName + "/routes"
}
