package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/sdk"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// subresource is a client of a subresource.
type subresource struct {
	*hostClient
	name string
}

func (to *hostClient) Status() client.SubResourceWriter { return subresource{to, "status"} }

func (to *hostClient) SubResource(name string) client.SubResourceClient { return subresource{to, name} }

// Get reads by a raw GET, because the world's other reads are only of objects.
func (to subresource) Get(_ context.Context, object, into client.Object, _ ...client.SubResourceGetOption) error {
	of, err := to.kindOf(object)
	if err != nil {
		return err
	}
	mapping, err := to.mapper.RESTMapping(of.GroupKind(), of.Version)
	if err != nil {
		return err
	}
	path := "/apis/" + of.GroupVersion().String()
	if of.Group == "" {
		path = "/api/" + of.Version
	}
	if namespace := to.namespaceOf(of, object.GetNamespace()); namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + mapping.Resource.Resource + "/" + object.GetName() + "/" + to.name
	result := to.world().Read([]flyball.LiveRead{flyball.LivePath(path)})[0]
	if result.Err != nil {
		return statusError(result.Err, of, object.GetName())
	}
	return json.Unmarshal(result.JSON, into)
}

func (to subresource) Create(_ context.Context, object, body client.Object, given ...client.SubResourceCreateOption) error {
	wanted := (&client.SubResourceCreateOptions{}).ApplyOptions(given)
	write, of, err := to.target(object, wanted.AsCreateOptions())
	if err != nil {
		return err
	}
	write.Verb, write.Subresource = flyball.VerbCreate, to.name
	if write.Body, err = to.encodeBody(body); err != nil {
		return err
	}
	return to.run(write, of, body)
}

// encodeBody returns the body of a subresource, which is an object of another kind.
func (to subresource) encodeBody(body runtime.Object) ([]byte, error) {
	kind, err := to.kindOf(body)
	if err != nil {
		return nil, fmt.Errorf("can't write subresource %s: %w", to.name, err)
	}
	return encode(body, kind)
}

func (to subresource) Update(_ context.Context, object client.Object, given ...client.SubResourceUpdateOption) error {
	wanted := (&client.SubResourceUpdateOptions{}).ApplyOptions(given)
	write, of, err := to.target(object, wanted.AsUpdateOptions())
	if err != nil {
		return err
	}
	body := object
	if wanted.SubResourceBody != nil {
		body = wanted.SubResourceBody
	}
	write.ResourceVersion = body.GetResourceVersion()
	if write.ResourceVersion == "" {
		base, err := to.base(object, of)
		if err != nil {
			return err
		}
		write.ResourceVersion = base.GetResourceVersion()
	}
	if to.name != "status" {
		write.Verb, write.Subresource = flyball.VerbUpdate, to.name
		if write.Body, err = to.encodeBody(body); err != nil {
			return err
		}
		return to.run(write, of, body)
	}
	write.Verb = flyball.VerbUpdateStatus
	var fields struct {
		Status json.RawMessage `json:"status"`
	}
	text, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return fmt.Errorf("can't write the status of %s %s: %w", of.text, write.Name, err)
	}
	write.Body = fields.Status
	if write.Body == nil {
		write.Body = []byte("{}")
	}
	return to.run(write, of, body)
}

func (to subresource) Patch(_ context.Context, object client.Object, patch client.Patch, given ...client.SubResourcePatchOption) error {
	wanted := (&client.SubResourcePatchOptions{}).ApplyOptions(given)
	body := object
	if wanted.SubResourceBody != nil {
		body = wanted.SubResourceBody
	}
	return to.patch(object, body, to.name, patch, wanted.AsPatchOptions())
}

// Apply applies a configuration to the subresource.
func (to subresource) Apply(_ context.Context, object runtime.ApplyConfiguration, given ...client.SubResourceApplyOption) error {
	wanted := (&client.SubResourceApplyOptions{}).ApplyOpts(given)
	body := object
	if wanted.SubResourceBody != nil {
		body = wanted.SubResourceBody
	}
	return to.apply(object, body, to.name, wanted.AsPatchOptions())
}
