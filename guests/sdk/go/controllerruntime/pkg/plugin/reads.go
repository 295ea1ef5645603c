package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/sdk"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// hostClient is a client that the host answers. Cached reads see all writes of the plugin.
type hostClient struct {
	*collector
	// isCached says whether kinds that the plugin watches are read from the host's cache.
	isCached bool
}

var _ client.Client = (*hostClient)(nil)

func (from *hostClient) Scheme() *runtime.Scheme     { return from.plugin.scheme }
func (from *hostClient) RESTMapper() meta.RESTMapper { return from.mapper }

func (from *hostClient) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(object, from.plugin.scheme)
}

func (from *hostClient) IsObjectNamespaced(object runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(object, from.plugin.scheme, from.mapper)
}

// namespaceOf returns a namespace, or none if objects of the kind have none: callers may name one all the same.
func (from *collector) namespaceOf(of kind, namespace string) string {
	if isNamespaced, err := apiutil.IsGVKNamespaced(of.GroupVersionKind, from.mapper); err == nil && !isNamespaced {
		return ""
	}
	return namespace
}

// caches says whether reads of a kind are from the cache.
func (from *hostClient) caches(of kind) bool {
	if !from.isCached {
		return false
	}
	isIt := func(object runtime.Object) bool {
		kind, err := from.kindOf(object)
		return err == nil && kind.text == of.text
	}
	return slices.ContainsFunc(from.watches, func(watch watch) bool { return watch.kind == of.text }) ||
		slices.ContainsFunc(from.plugin.options.Reads, func(object client.Object) bool { return isIt(object) })
}

// world returns the host's functions for the current call.
func (from *collector) world() flyball.World { return from.plugin.host.World() }

func (from *hostClient) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	of, err := from.kindOf(object)
	if err != nil {
		return err
	}
	key.Namespace = from.namespaceOf(of, key.Namespace)
	text, err := from.get(of, key)
	if err != nil {
		return err
	}
	return decode(text, object, of)
}

// get returns the JSON of an object.
func (from *hostClient) get(of kind, key types.NamespacedName) ([]byte, error) {
	if !from.caches(of) {
		read := flyball.LiveObject(of.text, key.Namespace, key.Name, from.plugin.options.Fields[of.text]...)
		result := from.world().Read([]flyball.LiveRead{read})[0]
		return result.JSON, statusError(result.Err, of, key.Name)
	}
	text, err := from.world().ListerGet(of.text, key.Namespace, key.Name, nil)
	if err == nil && text == nil {
		return nil, notFound(of, key.Name)
	}
	return text, statusError(err, of, key.Name)
}

// decode replaces an object by JSON.
func decode(text []byte, object runtime.Object, of kind) error {
	clear(object)
	var err error
	if untyped, isUntyped := object.(runtime.Unstructured); isUntyped {
		// The parser of unstructured objects needs a kind in each object, and a list has it only once. This parser
		// decodes whole numbers as integers.
		var content map[string]any
		err = utiljson.Unmarshal(text, &content)
		untyped.SetUnstructuredContent(content)
	} else {
		err = json.Unmarshal(text, object)
	}
	if err != nil {
		return fmt.Errorf("can't read %s into %T: %w", of.text, object, err)
	}
	object.GetObjectKind().SetGroupVersionKind(of.GroupVersionKind)
	return nil
}

func (from *hostClient) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	of, err := from.kindOf(list)
	if err != nil {
		return err
	}
	wanted := (&client.ListOptions{}).ApplyOptions(options)
	wanted.Namespace = from.namespaceOf(of, wanted.Namespace)
	if !from.caches(of) {
		return from.listLive(of, list, wanted)
	}
	query, isWanted, err := from.query(of, wanted)
	if err != nil {
		return err
	}
	items := []runtime.Object{}
	page, err := from.world().ListerList(query, flyball.Projection{}, 0)
	for {
		if err != nil {
			return statusError(err, of, "")
		}
		var texts []json.RawMessage
		if err := json.Unmarshal(page.Items, &texts); err != nil {
			return fmt.Errorf("a list of %s is malformed: %w", of.text, err)
		}
		for _, text := range texts {
			object, err := from.newItem(list, of)
			if err == nil {
				err = decode(text, object, of)
			}
			if err != nil {
				return err
			}
			if isWanted(object) {
				items = append(items, object)
			}
		}
		isFull := wanted.Limit > 0 && int64(len(items)) >= wanted.Limit
		if isFull {
			items = items[:wanted.Limit]
		}
		if page.Next == nil || isFull {
			if page.Drop != nil {
				page.Drop()
			}
			break
		}
		page, err = page.Next(0)
	}
	clear(list)
	list.GetObjectKind().SetGroupVersionKind(of.GroupVersion().WithKind(of.Kind + "List"))
	return setItems(list, items)
}

// query returns the query of a cached list, and a condition that the host does not check.
func (from *hostClient) query(of kind, wanted *client.ListOptions) (flyball.Query, func(client.Object) bool, error) {
	query := flyball.Query{Kind: of.text, Namespace: wanted.Namespace}
	add := func(name, value string) {
		query.Conditions = append(query.Conditions, flyball.QueryCondition{Name: name, Value: value})
	}
	if wanted.LabelSelector != nil && !wanted.LabelSelector.Empty() {
		add("labels", wanted.LabelSelector.String())
	}
	conditions := []func(client.Object) bool{}
	if wanted.FieldSelector != nil {
		for _, requirement := range wanted.FieldSelector.Requirements() {
			values, isIndexed := from.indexers[indexKey{of.text, requirement.Field}]
			switch {
			case !isIndexed && requirement.Field == "metadata.name":
				values = func(object client.Object) []string { return []string{object.GetName()} }
			case !isIndexed && requirement.Field == "metadata.namespace":
				values = func(object client.Object) []string { return []string{object.GetNamespace()} }
			case !isIndexed:
				return query, nil, fmt.Errorf("%s has no index of field %s: add one by the manager's field indexer", of.text, requirement.Field)
			}
			for _, index := range from.plugin.options.Indexes {
				if index.Kind == of.text && index.Name == requirement.Field {
					add("index/"+index.Name, requirement.Value)
				}
			}
			conditions = append(conditions, func(object client.Object) bool {
				return slices.Contains(values(object), requirement.Value)
			})
		}
	}
	return query, func(object client.Object) bool {
		return !slices.ContainsFunc(conditions, func(holds func(client.Object) bool) bool { return !holds(object) })
	}, nil
}

// listLive lists from the API server.
func (from *hostClient) listLive(of kind, list client.ObjectList, wanted *client.ListOptions) error {
	read := flyball.LiveList(of.text, wanted.Namespace, from.plugin.options.Fields[of.text]...)
	for name, selector := range map[string]fmt.Stringer{"labelSelector": wanted.LabelSelector, "fieldSelector": wanted.FieldSelector} {
		if text := textOfSelector(selector); text != "" {
			read = read.With(name, text)
		}
	}
	if wanted.Limit > 0 {
		read = read.With("limit", strconv.FormatInt(wanted.Limit, 10))
	}
	if wanted.Continue != "" {
		read = read.With("continue", wanted.Continue)
	}
	result := from.world().Read([]flyball.LiveRead{read})[0]
	if result.Err != nil {
		return statusError(result.Err, of, "")
	}
	if objects, isUnstructured := list.(*unstructured.UnstructuredList); isUnstructured {
		return objects.UnmarshalJSON(result.JSON)
	}
	clear(list)
	if err := json.Unmarshal(result.JSON, list); err != nil {
		return fmt.Errorf("a list of %s is malformed: %w", of.text, err)
	}
	return nil
}

func textOfSelector(selector fmt.Stringer) string {
	if selector == nil {
		return ""
	}
	return selector.String()
}

// newItem returns an empty object of the type of a list's items.
func (from *hostClient) newItem(list client.ObjectList, of kind) (client.Object, error) {
	switch list.(type) {
	case runtime.Unstructured:
		return &unstructured.Unstructured{}, nil
	case *metav1.PartialObjectMetadataList:
		return &metav1.PartialObjectMetadata{}, nil
	}
	object, err := from.plugin.scheme.New(of.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	item, isObject := object.(client.Object)
	if !isObject {
		return nil, errors.New(of.text + " is no object with metadata")
	}
	return item, nil
}
