package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/sdk"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patchTypes maps the API's patch types to the world's.
var patchTypes = map[types.PatchType]flyball.PatchType{
	types.JSONPatchType:           flyball.JSONPatch,
	types.MergePatchType:          flyball.MergePatch,
	types.StrategicMergePatchType: flyball.StrategicPatch,
	types.ApplyPatchType:          flyball.ApplyPatch,
}

// target returns a write of an object, without its verb.
func (to *hostClient) target(object client.Object, of any) (flyball.Write, kind, error) {
	kind, err := to.kindOf(object)
	if err != nil {
		return flyball.Write{}, kind, err
	}
	all, err := options(of)
	return flyball.Write{
		Kind: kind.text, Namespace: to.namespaceOf(kind, object.GetNamespace()), Name: object.GetName(), Options: all,
	}, kind, err
}

// run runs a write. It replaces the object by the server's answer, if one is given.
func (to *hostClient) run(write flyball.Write, of kind, answer runtime.Object) error {
	if answer != nil {
		write.Returns = to.returns(of)
	}
	result := to.plugin.host.Write(write)
	if result.Err != nil || answer == nil || len(result.JSON) == 0 {
		return statusError(result.Err, of, write.Name)
	}
	before := answer.GetObjectKind().GroupVersionKind()
	if err := decode(result.JSON, answer, of); err != nil {
		return err
	}
	// Objects keep their kind as it was before. Most have none.
	answer.GetObjectKind().SetGroupVersionKind(before)
	return nil
}

// returns gives the paths to return in an answer.
func (to *hostClient) returns(of kind) []string {
	if fields, isNarrowed := to.plugin.options.Fields[of.text]; isNarrowed {
		return fields
	}
	return []string{"."}
}

func (to *hostClient) Create(_ context.Context, object client.Object, given ...client.CreateOption) error {
	wanted := (&client.CreateOptions{}).ApplyOptions(given)
	write, of, err := to.target(object, wanted.AsCreateOptions())
	if err != nil {
		return err
	}
	write.Verb, write.Name = flyball.VerbCreate, ""
	if write.Body, err = encode(object, of); err != nil {
		return err
	}
	return to.run(write, of, object)
}

// Update replaces an object. The change from the version that the object was read in crosses the boundary, and the host
// replaces the whole object. Fields that the object's type does not have are kept.
func (to *hostClient) Update(_ context.Context, object client.Object, given ...client.UpdateOption) error {
	wanted := (&client.UpdateOptions{}).ApplyOptions(given)
	write, of, err := to.target(object, wanted.AsUpdateOptions())
	if err != nil {
		return err
	}
	base, err := to.base(object, of)
	if err != nil {
		return err
	}
	write.Verb, write.ResourceVersion = flyball.VerbUpdate, base.GetResourceVersion()
	if write.Body, err = change(base, object); err != nil {
		return fmt.Errorf("can't compare the versions of %s %s: %w", of.text, write.Name, err)
	}
	return to.run(write, of, object)
}

// base returns the object that an update changes, in the version that the object has, if it has one.
func (to *hostClient) base(object client.Object, of kind) (client.Object, error) {
	key := client.ObjectKey{Namespace: to.namespaceOf(of, object.GetNamespace()), Name: object.GetName()}
	wanted := object.GetResourceVersion()
	// The cache may be older than an object that was read from the server.
	for _, reader := range []*hostClient{to, to.live} {
		text, err := reader.get(of, key)
		if err != nil {
			return nil, err
		}
		base := object.DeepCopyObject().(client.Object)
		if err := decode(text, base, of); err != nil {
			return nil, err
		}
		if wanted == "" || base.GetResourceVersion() == wanted {
			return base, nil
		}
		if !to.mayGet(of) {
			break
		}
	}
	return nil, statusError(&flyball.APIError{
		Status: 409, Reason: string(metav1.StatusReasonConflict),
		Message: fmt.Sprintf("%s %s has changed since version %s was read: read it again", of.text, key.Name, wanted),
	}, of, key.Name)
}

// mayGet says whether the plugin asks to get objects of a kind from the server.
func (to *hostClient) mayGet(of kind) bool {
	permissions, err := to.plugin.permissions()
	if err != nil {
		return false
	}
	for _, permission := range append(permissions, to.plugin.options.Permissions...) {
		if permission.Kind == of.text && permission.Subresource == "" && slices.Contains(permission.Verbs, "get") {
			return true
		}
	}
	return false
}

// change returns the merge patch from an object to another one of its type.
func change(from, to client.Object) ([]byte, error) {
	to = to.DeepCopyObject().(client.Object)
	to.GetObjectKind().SetGroupVersionKind(from.GetObjectKind().GroupVersionKind())
	// An object that was not read lacks these fields, and no update changes them.
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetManagedFields(from.GetManagedFields())
	if to.GetUID() == "" {
		to.SetUID(from.GetUID())
		to.SetCreationTimestamp(from.GetCreationTimestamp())
		to.SetGeneration(from.GetGeneration())
	}
	before, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(before, after)
}

func (to *hostClient) Patch(_ context.Context, object client.Object, patch client.Patch, given ...client.PatchOption) error {
	wanted := (&client.PatchOptions{}).ApplyOptions(given)
	return to.patch(object, object, "", patch, wanted.AsPatchOptions())
}

// patch patches an object or its subresource, by what the patch says about the body.
func (to *hostClient) patch(object, body client.Object, subresource string, patch client.Patch, wanted *metav1.PatchOptions) error {
	write, of, err := to.target(object, wanted)
	if err != nil {
		return err
	}
	write.Verb, write.Subresource = flyball.VerbPatch, subresource
	write.PatchType = patchTypes[patch.Type()]
	if write.PatchType == "" {
		return fmt.Errorf("can't patch %s %s: the patch type %q is unknown", of.text, write.Name, patch.Type())
	}
	if write.Body, err = patch.Data(body); err != nil {
		return fmt.Errorf("can't make the patch of %s %s: %w", of.text, write.Name, err)
	}
	return to.run(write, of, body)
}

func (to *hostClient) Apply(_ context.Context, object runtime.ApplyConfiguration, given ...client.ApplyOption) error {
	wanted := (&client.ApplyOptions{}).ApplyOptions(given)
	return to.apply(object, object, "", wanted.AsPatchOptions())
}

// apply applies a body to an object or its subresource.
func (to *hostClient) apply(object, body runtime.ApplyConfiguration, subresource string, wanted *metav1.PatchOptions) error {
	named, err := metadataOf(object)
	if err != nil {
		return err
	}
	write, of, err := to.target(named, wanted)
	if err != nil {
		return err
	}
	write.Verb, write.Subresource, write.PatchType = flyball.VerbPatch, subresource, flyball.ApplyPatch
	if write.Body, err = json.Marshal(body); err != nil {
		return fmt.Errorf("can't write %T: %w", body, err)
	}
	write.Returns = to.returns(of)
	result := to.plugin.host.Write(write)
	if result.Err != nil || len(result.JSON) == 0 {
		return statusError(result.Err, of, write.Name)
	}
	// An object without a type can be parsed only with its kind.
	answer, err := withKind(result.JSON, of)
	if err != nil {
		return fmt.Errorf("the answer to the apply of %s %s is malformed: %w", of.text, write.Name, err)
	}
	return json.Unmarshal(answer, body)
}

// metadataOf returns the kind and metadata of a configuration to apply.
func metadataOf(object runtime.ApplyConfiguration) (*metav1.PartialObjectMetadata, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("can't write %T: %w", object, err)
	}
	var named metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &named); err != nil {
		return nil, fmt.Errorf("%T has no metadata: %w", object, err)
	}
	return &named, nil
}

func (to *hostClient) Delete(_ context.Context, object client.Object, given ...client.DeleteOption) error {
	wanted := (&client.DeleteOptions{}).ApplyOptions(given)
	write, of, err := to.target(object, wanted.AsDeleteOptions())
	if err != nil {
		return err
	}
	write.Verb = flyball.VerbDelete
	return to.run(write, of, nil)
}

func (to *hostClient) DeleteAllOf(_ context.Context, object client.Object, given ...client.DeleteAllOfOption) error {
	wanted := (&client.DeleteAllOfOptions{}).ApplyOptions(given)
	write, of, err := to.target(object, wanted.AsDeleteOptions())
	if err != nil {
		return err
	}
	write.Verb, write.Name, write.Namespace = flyball.VerbDeleteCollection, "", to.namespaceOf(of, wanted.Namespace)
	if wanted.LabelSelector != nil {
		write.LabelSelector = wanted.LabelSelector.String()
	}
	if wanted.FieldSelector != nil {
		write.FieldSelector = wanted.FieldSelector.String()
	}
	return to.run(write, of, nil)
}
