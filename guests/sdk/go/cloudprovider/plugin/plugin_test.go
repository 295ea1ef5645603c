package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"flyball.dev/sdk/cloud"
	"flyball.dev/sdk/cloudtest"
)

// object is a document.
type object = map[string]any

// shelf is a cloud whose methods return its fields, and keep their arguments in others. It lacks Instances and Zones.
type shelf struct {
	status   *v1.LoadBalancerStatus
	metadata *cloudprovider.InstanceMetadata
	routes   []*cloudprovider.Route
	err      error

	// config and token are what the cloud was opened with.
	config, token string
	stop          <-chan struct{}
	clusterName   string
	service       *v1.Service
	nodes         []*v1.Node
	nameHint      string
	route         *cloudprovider.Route
}

func (shelf *shelf) Initialize(_ cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	shelf.stop = stop
}
func (shelf *shelf) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return shelf, true }
func (shelf *shelf) InstancesV2() (cloudprovider.InstancesV2, bool)   { return shelf, true }
func (shelf *shelf) Routes() (cloudprovider.Routes, bool)             { return shelf, true }
func (shelf *shelf) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (shelf *shelf) Zones() (cloudprovider.Zones, bool)               { return nil, false }
func (shelf *shelf) Clusters() (cloudprovider.Clusters, bool)         { return nil, false }
func (shelf *shelf) ProviderName() string                             { return "shelf" }
func (shelf *shelf) HasClusterID() bool                               { return true }

func (shelf *shelf) GetLoadBalancer(_ context.Context, clusterName string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	shelf.clusterName, shelf.service = clusterName, service
	return shelf.status, shelf.status != nil, shelf.err
}

func (shelf *shelf) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func (shelf *shelf) EnsureLoadBalancer(_ context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	shelf.clusterName, shelf.service, shelf.nodes = clusterName, service, nodes
	return shelf.status, shelf.err
}

func (shelf *shelf) UpdateLoadBalancer(_ context.Context, _ string, _ *v1.Service, nodes []*v1.Node) error {
	shelf.nodes = nodes
	return shelf.err
}

func (shelf *shelf) EnsureLoadBalancerDeleted(context.Context, string, *v1.Service) error {
	panic("not today")
}

func (shelf *shelf) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	return node.Spec.ProviderID != "", shelf.err
}

func (shelf *shelf) InstanceShutdown(context.Context, *v1.Node) (bool, error) { return true, shelf.err }

func (shelf *shelf) InstanceMetadata(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return shelf.metadata, shelf.err
}

func (shelf *shelf) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	return shelf.routes, shelf.err
}

func (shelf *shelf) CreateRoute(_ context.Context, _, nameHint string, route *cloudprovider.Route) error {
	shelf.nameHint, shelf.route = nameHint, route
	return shelf.err
}

func (shelf *shelf) DeleteRoute(context.Context, string, *cloudprovider.Route) error {
	return shelf.err
}

// open returns a plugin whose cloud is this one.
func open(of *shelf) *cloudtest.Cloud {
	options := Options{
		Name: "shelf", Version: "1.0.0", Credentials: []string{"SHELF_TOKEN"},
		Open: func(config io.Reader) (cloudprovider.Interface, error) {
			if config == nil {
				return nil, errors.New("no configuration")
			}
			text, err := io.ReadAll(config)
			of.config, of.token = string(text), os.Getenv("SHELF_TOKEN")
			return of, err
		},
	}
	return cloudtest.New(New(options), map[string]string{cloud.ConfigName: "shelves: 3"})
}

func service(uid string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: types.UID(uid)}}
}

func TestTheCapabilitiesAreTheInterfacesOfTheCloud(t *testing.T) {
	found, err := open(&shelf{}).Capabilities()
	wanted := cloud.Capabilities{ProviderName: "shelf", HasClusterID: true, LoadBalancer: true, InstancesV2: true, Routes: true}
	if err != nil || found != wanted {
		t.Errorf("the capabilities are %+v, %v", found, err)
	}
}

func TestArgumentsAndResultsCrossAsTheyAre(t *testing.T) {
	of := &shelf{status: &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}}}
	test := open(of)
	nodes := []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.NodeSpec{ProviderID: "shelf://a"}}}
	arguments := object{"clusterName": "prod", "service": service("u1")}
	var result struct{ Status v1.LoadBalancerStatus }
	if err := test.Call("EnsureLoadBalancer", arguments, nodes, &result); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(result.Status, *of.status) || of.clusterName != "prod" || of.service.UID != "u1" || !reflect.DeepEqual(of.nodes, nodes) {
		t.Errorf("the result is %+v, and the cloud was called with %+v", result, of)
	}
	var name struct{ String string }
	if err := test.Call("GetLoadBalancerName", arguments, nil, &name); err != nil || name.String != "au1" {
		t.Errorf("the name is %q, %v", name.String, err)
	}
	var exists struct{ Bool bool }
	if err := test.Call("InstanceExists", nil, nodes, &exists); err != nil || !exists.Bool {
		t.Errorf("the instance exists: %v, %v", exists.Bool, err)
	}
}

func TestRoutesHaveTheKeysOfTheWorld(t *testing.T) {
	route := cloudprovider.Route{
		Name: "r", TargetNode: "a", EnableNodeAddresses: true, DestinationCIDR: "10.0.0.0/24", Blackhole: true,
		TargetNodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.1.0.1"}},
	}
	of := &shelf{routes: []*cloudprovider.Route{&route}}
	test := open(of)
	var listed struct{ Routes []object }
	if err := test.Call("ListRoutes", object{"clusterName": "c"}, nil, &listed); err != nil {
		t.Fatal(err)
	}
	wanted := object{
		"name": "r", "targetNode": "a", "enableNodeAddresses": true, "destinationCIDR": "10.0.0.0/24", "blackhole": true,
		"targetNodeAddresses": []any{object{"type": "InternalIP", "address": "10.1.0.1"}},
	}
	if len(listed.Routes) != 1 || !reflect.DeepEqual(listed.Routes[0], wanted) {
		t.Errorf("the routes are %v", listed.Routes)
	}
	if err := test.Call("CreateRoute", object{"nameHint": "u1", "route": listed.Routes[0]}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if of.nameHint != "u1" || !reflect.DeepEqual(*of.route, route) {
		t.Errorf("the cloud was asked for %q, %+v", of.nameHint, of.route)
	}
	of.routes = nil
	listed.Routes = nil
	if err := test.Call("ListRoutes", object{}, nil, &listed); err != nil || listed.Routes == nil {
		t.Errorf("no routes are not an empty list: %v, %v", listed.Routes, err)
	}
}

func TestNilAndEmptyAreDistinct(t *testing.T) {
	of := &shelf{}
	test := open(of)
	for _, one := range []struct {
		status *v1.LoadBalancerStatus
		wanted any
	}{{nil, nil}, {&v1.LoadBalancerStatus{}, object{}}} {
		of.status = one.status
		var result object
		if err := test.Call("EnsureLoadBalancer", object{"service": service("u")}, []any{}, &result); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(result["status"], one.wanted) {
			t.Errorf("%v becomes %v", one.status, result)
		}
	}
	var result object
	if err := test.Call("InstanceMetadata", nil, []object{{"metadata": object{"name": "a"}}}, &result); err != nil || result["metadata"] != nil {
		t.Errorf("no metadata become %v, %v", result, err)
	}
}

func TestErrorsKeepTheirKindsAndWhetherTheyAreWrapped(t *testing.T) {
	retry := api.NewRetryError("busy", 5*time.Second)
	for _, one := range []struct {
		err    error
		wanted cloud.Error
	}{
		{cloudprovider.InstanceNotFound, *cloud.ErrInstanceNotFound},
		{cloudprovider.ImplementedElsewhere, *cloud.ErrImplementedElsewhere},
		{cloudprovider.NotImplemented, *cloud.ErrNotImplemented},
		{fmt.Errorf("a: %w", cloudprovider.InstanceNotFound), cloud.Error{Kind: cloud.KindInstanceNotFound, Message: "a: instance not found", Wrapped: true}},
		{retry, cloud.Error{Kind: cloud.KindRetry, Message: "busy", RetryAfter: 5 * time.Second}},
		{fmt.Errorf("a: %w", retry), cloud.Error{Kind: cloud.KindRetry, Message: "a: busy", Wrapped: true, RetryAfter: 5 * time.Second}},
		{errors.New("quota"), cloud.Error{Message: "quota"}},
	} {
		err := open(&shelf{err: one.err}).Call("InstanceShutdown", nil, []object{{}}, nil)
		if found := cloud.AsError(err); *found != one.wanted {
			t.Errorf("%v becomes %+v", one.err, *found)
		}
	}
}

func TestPartsAndMethodsThatTheCloudLacksAreNotImplemented(t *testing.T) {
	test := open(&shelf{})
	for _, method := range []string{"InstanceID", "GetZoneByNodeName", "Fly"} {
		if err := test.Call(method, object{"nodeName": "a"}, nil, nil); cloud.AsError(err).Kind != cloud.KindNotImplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestCallsWithoutWhatTheMethodNeedsAreErrors(t *testing.T) {
	test := open(&shelf{})
	for method, wanted := range map[string]string{
		"EnsureLoadBalancer": "no service", "InstanceExists": "about one node", "CreateRoute": "no route",
	} {
		if err := test.Call(method, object{}, nil, nil); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestAPanicIsTheErrorOfOneCall(t *testing.T) {
	test := open(&shelf{})
	err := test.Call("EnsureLoadBalancerDeleted", object{"service": service("u")}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "not today") || !strings.Contains(err.Error(), "plugin_test.go") {
		t.Errorf("the error is %v", err)
	}
	if err := test.Call("InstanceShutdown", nil, []object{{}}, nil); err != nil {
		t.Errorf("the next call fails: %v", err)
	}
}

func TestTheCloudIsOpenedAgainWhenItsCredentialsChange(t *testing.T) {
	of := &shelf{}
	test := open(of)
	test.Credentials["SHELF_TOKEN"] = "one"
	call := func() {
		t.Helper()
		if err := test.Call("InstanceShutdown", nil, []object{{}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	call()
	first := of.stop
	if of.config != "shelves: 3" || of.token != "one" {
		t.Errorf("the cloud was opened with %q and %q", of.config, of.token)
	}
	call()
	if of.stop != first {
		t.Error("the cloud was opened again without a change")
	}
	delete(test.Credentials, "SHELF_TOKEN")
	test.Credentials[cloud.ConfigName] = "shelves: 4"
	call()
	if of.config != "shelves: 4" || of.token != "" {
		t.Errorf("the cloud was opened with %q and %q", of.config, of.token)
	}
	select {
	case <-first:
	default:
		t.Error("the cloud of before was not stopped")
	}
	delete(test.Credentials, cloud.ConfigName)
	if err := test.Call("InstanceShutdown", nil, []object{{}}, nil); err == nil || !strings.Contains(err.Error(), "can't open the cloud shelf: no configuration") {
		t.Errorf("the error is %v", err)
	}
}

func TestAProviderThatIsNotRegisteredIsAnError(t *testing.T) {
	_, err := cloudtest.New(New(Options{Name: "nobody"}), nil).Capabilities()
	if err == nil || !strings.Contains(err.Error(), "no provider of this name is registered") {
		t.Errorf("the error is %v", err)
	}
}
