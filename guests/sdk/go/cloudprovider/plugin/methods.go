package plugin

import (
	"context"
	"encoding/json"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"flyball.dev/sdk/cloud"
)

// request is a call of a method.
type request struct {
	cloud     cloudprovider.Interface
	arguments arguments
	nodes     []*v1.Node
}

type arguments struct {
	ClusterName string         `json:"clusterName"`
	Service     *v1.Service    `json:"service"`
	NodeName    types.NodeName `json:"nodeName"`
	ProviderID  string         `json:"providerID"`
	NameHint    string         `json:"nameHint"`
	Route       *route         `json:"route"`
}

// results is the document of a method. A value that is nil becomes null.
type results map[string]any

// route is a route as the world has it.
type route struct {
	Name                string           `json:"name"`
	TargetNode          types.NodeName   `json:"targetNode"`
	EnableNodeAddresses bool             `json:"enableNodeAddresses"`
	TargetNodeAddresses []v1.NodeAddress `json:"targetNodeAddresses"`
	DestinationCIDR     string           `json:"destinationCIDR"`
	Blackhole           bool             `json:"blackhole"`
}

// metadata are those of an instance as the world has them.
type metadata struct {
	ProviderID       string            `json:"providerID"`
	InstanceType     string            `json:"instanceType"`
	NodeAddresses    []v1.NodeAddress  `json:"nodeAddresses"`
	Zone             string            `json:"zone"`
	Region           string            `json:"region"`
	AdditionalLabels map[string]string `json:"additionalLabels"`
}

// zone is a zone as the world has it.
type zone struct {
	FailureDomain string `json:"failureDomain"`
	Region        string `json:"region"`
}

// methods are the methods of the world.
var methods = map[string]func(*request) ([]byte, error){
	"GetLoadBalancer": with(cloudprovider.Interface.LoadBalancer, wantsService, func(ctx context.Context, of cloudprovider.LoadBalancer, request *request) (results, error) {
		status, exists, err := of.GetLoadBalancer(ctx, request.arguments.ClusterName, request.arguments.Service)
		return results{"status": status, "exists": exists}, err
	}),
	"GetLoadBalancerName": with(cloudprovider.Interface.LoadBalancer, wantsService, func(ctx context.Context, of cloudprovider.LoadBalancer, request *request) (results, error) {
		return results{"string": of.GetLoadBalancerName(ctx, request.arguments.ClusterName, request.arguments.Service)}, nil
	}),
	"EnsureLoadBalancer": with(cloudprovider.Interface.LoadBalancer, wantsService, func(ctx context.Context, of cloudprovider.LoadBalancer, request *request) (results, error) {
		status, err := of.EnsureLoadBalancer(ctx, request.arguments.ClusterName, request.arguments.Service, request.nodes)
		return results{"status": status}, err
	}),
	"UpdateLoadBalancer": with(cloudprovider.Interface.LoadBalancer, wantsService, func(ctx context.Context, of cloudprovider.LoadBalancer, request *request) (results, error) {
		return results{}, of.UpdateLoadBalancer(ctx, request.arguments.ClusterName, request.arguments.Service, request.nodes)
	}),
	"EnsureLoadBalancerDeleted": with(cloudprovider.Interface.LoadBalancer, wantsService, func(ctx context.Context, of cloudprovider.LoadBalancer, request *request) (results, error) {
		return results{}, of.EnsureLoadBalancerDeleted(ctx, request.arguments.ClusterName, request.arguments.Service)
	}),

	"InstanceExists": with(cloudprovider.Interface.InstancesV2, wantsNode, func(ctx context.Context, of cloudprovider.InstancesV2, request *request) (results, error) {
		exists, err := of.InstanceExists(ctx, request.nodes[0])
		return results{"bool": exists}, err
	}),
	"InstanceShutdown": with(cloudprovider.Interface.InstancesV2, wantsNode, func(ctx context.Context, of cloudprovider.InstancesV2, request *request) (results, error) {
		isShutDown, err := of.InstanceShutdown(ctx, request.nodes[0])
		return results{"bool": isShutDown}, err
	}),
	"InstanceMetadata": with(cloudprovider.Interface.InstancesV2, wantsNode, func(ctx context.Context, of cloudprovider.InstancesV2, request *request) (results, error) {
		found, err := of.InstanceMetadata(ctx, request.nodes[0])
		return results{"metadata": (*metadata)(found)}, err
	}),

	"NodeAddresses": with(cloudprovider.Interface.Instances, wantsNothing, func(ctx context.Context, of cloudprovider.Instances, request *request) (results, error) {
		addresses, err := of.NodeAddresses(ctx, request.arguments.NodeName)
		return results{"addresses": addresses}, err
	}),
	"NodeAddressesByProviderID": with(cloudprovider.Interface.Instances, wantsNothing, func(ctx context.Context, of cloudprovider.Instances, request *request) (results, error) {
		addresses, err := of.NodeAddressesByProviderID(ctx, request.arguments.ProviderID)
		return results{"addresses": addresses}, err
	}),
	"InstanceID": with(cloudprovider.Interface.Instances, wantsNothing, func(ctx context.Context, of cloudprovider.Instances, request *request) (results, error) {
		id, err := of.InstanceID(ctx, request.arguments.NodeName)
		return results{"string": id}, err
	}),
	"InstanceType": with(cloudprovider.Interface.Instances, wantsNothing, func(ctx context.Context, of cloudprovider.Instances, request *request) (results, error) {
		instanceType, err := of.InstanceType(ctx, request.arguments.NodeName)
		return results{"string": instanceType}, err
	}),
	"InstanceTypeByProviderID": with(cloudprovider.Interface.Instances, wantsNothing, func(ctx context.Context, of cloudprovider.Instances, request *request) (results, error) {
		instanceType, err := of.InstanceTypeByProviderID(ctx, request.arguments.ProviderID)
		return results{"string": instanceType}, err
	}),
	"InstanceExistsByProviderID": with(cloudprovider.Interface.Instances, wantsNothing, func(ctx context.Context, of cloudprovider.Instances, request *request) (results, error) {
		exists, err := of.InstanceExistsByProviderID(ctx, request.arguments.ProviderID)
		return results{"bool": exists}, err
	}),
	"InstanceShutdownByProviderID": with(cloudprovider.Interface.Instances, wantsNothing, func(ctx context.Context, of cloudprovider.Instances, request *request) (results, error) {
		isShutDown, err := of.InstanceShutdownByProviderID(ctx, request.arguments.ProviderID)
		return results{"bool": isShutDown}, err
	}),

	"GetZoneByProviderID": with(cloudprovider.Interface.Zones, wantsNothing, func(ctx context.Context, of cloudprovider.Zones, request *request) (results, error) {
		found, err := of.GetZoneByProviderID(ctx, request.arguments.ProviderID)
		return results{"zone": zone(found)}, err
	}),
	"GetZoneByNodeName": with(cloudprovider.Interface.Zones, wantsNothing, func(ctx context.Context, of cloudprovider.Zones, request *request) (results, error) {
		found, err := of.GetZoneByNodeName(ctx, request.arguments.NodeName)
		return results{"zone": zone(found)}, err
	}),

	"ListRoutes": with(cloudprovider.Interface.Routes, wantsNothing, func(ctx context.Context, of cloudprovider.Routes, request *request) (results, error) {
		found, err := of.ListRoutes(ctx, request.arguments.ClusterName)
		routes := make([]route, len(found))
		for i := range found {
			routes[i] = route(*found[i])
		}
		return results{"routes": routes}, err
	}),
	"CreateRoute": with(cloudprovider.Interface.Routes, wantsRoute, func(ctx context.Context, of cloudprovider.Routes, request *request) (results, error) {
		wanted := cloudprovider.Route(*request.arguments.Route)
		return results{}, of.CreateRoute(ctx, request.arguments.ClusterName, request.arguments.NameHint, &wanted)
	}),
	"DeleteRoute": with(cloudprovider.Interface.Routes, wantsRoute, func(ctx context.Context, of cloudprovider.Routes, request *request) (results, error) {
		unwanted := cloudprovider.Route(*request.arguments.Route)
		return results{}, of.DeleteRoute(ctx, request.arguments.ClusterName, &unwanted)
	}),
}

// with calls a part of the cloud. It fails with NotImplemented if the cloud lacks that part, and checks the arguments that
// the method needs first.
func with[T any](
	part func(cloudprovider.Interface) (T, bool), check func(*request) error, call func(context.Context, T, *request) (results, error),
) func(*request) ([]byte, error) {
	return func(request *request) ([]byte, error) {
		of, isSupported := part(request.cloud)
		if !isSupported {
			return nil, cloudprovider.NotImplemented
		}
		if err := check(request); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		// What the call leaves running must not go on in the next call.
		defer cancel()
		found, err := call(ctx, of, request)
		if err != nil {
			return nil, err
		}
		return json.Marshal(found)
	}
}

func wantsNothing(*request) error { return nil }

func wantsService(request *request) error {
	if request.arguments.Service == nil {
		return errors.New("the arguments have no service")
	}
	return nil
}

func wantsNode(request *request) error {
	if len(request.nodes) != 1 || request.nodes[0] == nil {
		return errors.New("the method is about one node, and the call has another number")
	}
	return nil
}

func wantsRoute(request *request) error {
	if request.arguments.Route == nil {
		return errors.New("the arguments have no route")
	}
	return nil
}

// sentinels are the errors that the controllers of Kubernetes recognise by their identity.
var sentinels = map[error]cloud.Kind{
	cloudprovider.ImplementedElsewhere: cloud.KindImplementedElsewhere,
	cloudprovider.InstanceNotFound:     cloud.KindInstanceNotFound,
	cloudprovider.NotImplemented:       cloud.KindNotImplemented,
}

// asError gives an error of the provider its kind.
func asError(err error) *cloud.Error {
	for sentinel, kind := range sentinels {
		if errors.Is(err, sentinel) {
			return &cloud.Error{Kind: kind, Message: err.Error(), Wrapped: err != sentinel}
		}
	}
	var retry *api.RetryError
	if errors.As(err, &retry) {
		return &cloud.Error{Kind: cloud.KindRetry, Message: err.Error(), Wrapped: err != error(retry), RetryAfter: retry.RetryAfter()}
	}
	return cloud.AsError(err)
}
