package samplecloud

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

const (
	// elsewhere is the annotation of Services whose load balancers are managed by something else.
	elsewhere = "sample.flyball.dev/elsewhere"
	// creating is how long to wait for a load balancer that is being created.
	creating = time.Second
)

// A loadBalancer, as the API shows it.
type loadBalancer struct {
	State   string `json:"state"`
	Address string `json:"address"`
}

// A port, as the API takes it.
type port struct {
	Protocol v1.Protocol `json:"protocol"`
	Port     int32       `json:"port"`
	NodePort int32       `json:"nodePort"`
}

// wanted is the request for a load balancer.
type wanted struct {
	Service      string   `json:"service"`
	Ports        []port   `json:"ports"`
	SourceRanges []string `json:"sourceRanges"`
	Targets      []string `json:"targets"`
}

func (c *cloud) GetLoadBalancer(ctx context.Context, clusterName string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	found := &loadBalancer{}
	err := c.get(ctx, c.path(ctx, clusterName, service), found)
	if errors.Is(err, errNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return found.status(), true, nil
}

func (c *cloud) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func (c *cloud) EnsureLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	if isElsewhere(service) {
		return nil, cloudprovider.ImplementedElsewhere
	}
	request := wanted{
		Service:      service.Namespace + "/" + service.Name,
		Ports:        []port{},
		SourceRanges: append([]string{}, service.Spec.LoadBalancerSourceRanges...),
		Targets:      targets(nodes),
	}
	for _, one := range service.Spec.Ports {
		request.Ports = append(request.Ports, port{one.Protocol, one.Port, one.NodePort})
	}
	result := &loadBalancer{}
	if err := c.send(ctx, http.MethodPut, c.path(ctx, clusterName, service), request, result); err != nil {
		return nil, err
	}
	if result.State != "ready" {
		return nil, api.NewRetryError("the load balancer is being created", creating)
	}
	return result.status(), nil
}

func (c *cloud) UpdateLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) error {
	if isElsewhere(service) {
		return cloudprovider.ImplementedElsewhere
	}
	request := map[string]any{"targets": targets(nodes)}
	err := c.send(ctx, http.MethodPut, c.path(ctx, clusterName, service)+"/targets", request, nil)
	if errors.Is(err, errNotFound) {
		return errors.New("the load balancer does not exist")
	}
	return err
}

func (c *cloud) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *v1.Service) error {
	return c.delete(ctx, c.path(ctx, clusterName, service))
}

func (c *cloud) path(ctx context.Context, clusterName string, service *v1.Service) string {
	return "load-balancers/" + c.GetLoadBalancerName(ctx, clusterName, service)
}

func isElsewhere(service *v1.Service) bool {
	return service.Annotations[elsewhere] == "true"
}

// targets returns the IDs of the nodes' instances. Nodes without a provider ID of this cloud get no traffic.
func targets(nodes []*v1.Node) []string {
	ids := []string{}
	for _, node := range nodes {
		if id, ok := instanceID(node); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (l *loadBalancer) status() *v1.LoadBalancerStatus {
	status := &v1.LoadBalancerStatus{}
	if l.Address != "" {
		status.Ingress = []v1.LoadBalancerIngress{{IP: l.Address}}
	}
	return status
}
