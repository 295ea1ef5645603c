package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/client-go/tools/cache"

	"flyball.dev/sdk"
)

// store reads the objects of a kind from the host's cache. It builds an index at most once in a call.
type store struct {
	host *flyball.Host
	// kind is as in `v1/Node`.
	kind string
	// object is the type of an object.
	object    reflect.Type
	transform cache.TransformFunc
	indexers  cache.Indexers
	// calls is the number of calls of this instance.
	calls *int

	// built is the call that the indexes belong to.
	built   int
	indexes map[string]map[string][]any
}

var _ cache.Indexer = &store{}

var errReadOnly = errors.New("the informers of a plugin can't be written to: they show the host's cache")

func (store *store) Add(any) error                        { return errReadOnly }
func (store *store) Update(any) error                     { return errReadOnly }
func (store *store) Delete(any) error                     { return errReadOnly }
func (store *store) Replace([]any, string) error          { return errReadOnly }
func (store *store) Resync() error                        { return nil }
func (store *store) Bookmark(string)                      {}
func (store *store) LastStoreSyncResourceVersion() string { return "" }

func (store *store) Get(object any) (item any, exists bool, err error) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return nil, false, cache.KeyError{Obj: object, Err: err}
	}
	return store.GetByKey(key)
}

func (store *store) GetByKey(key string) (item any, exists bool, err error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, false, err
	}
	text, err := store.host.World().ListerGet(store.kind, namespace, name, nil)
	if err != nil || text == nil {
		return nil, false, err
	}
	item, err = store.decode(text)
	return item, err == nil, err
}

func (store *store) decode(text []byte) (any, error) {
	object := reflect.New(store.object).Interface()
	if err := json.Unmarshal(text, object); err != nil {
		return nil, fmt.Errorf("an object of the kind %s is malformed: %w", store.kind, err)
	}
	if store.transform == nil {
		return object, nil
	}
	return store.transform(object)
}

// List returns all objects. The interface has no error, so that a failure is in the log.
func (store *store) List() []any {
	all, err := store.list()
	if err != nil {
		store.host.Log().Error("can't list the cache: "+err.Error(), "kind", store.kind)
	}
	return all
}

func (store *store) list() (all []any, err error) {
	page, err := store.host.World().ListerList(flyball.Query{Kind: store.kind}, flyball.Projection{}, 0)
	for err == nil {
		var texts []json.RawMessage
		if err := json.Unmarshal(page.Items, &texts); err != nil {
			return nil, fmt.Errorf("a list of %s is malformed: %w", store.kind, err)
		}
		for _, text := range texts {
			object, err := store.decode(text)
			if err != nil {
				return nil, err
			}
			all = append(all, object)
		}
		if page.Next == nil {
			return all, nil
		}
		page, err = page.Next(0)
	}
	return nil, err
}

func (store *store) ListKeys() (keys []string) {
	for _, object := range store.List() {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

func (store *store) Index(name string, object any) (found []any, err error) {
	indexer, isThere := store.indexers[name]
	if !isThere {
		return nil, store.missing(name)
	}
	values, err := indexer(object)
	if err != nil {
		return nil, err
	}
	for _, value := range values {
		of, err := store.ByIndex(name, value)
		if err != nil {
			return nil, err
		}
		for _, object := range of {
			if !slices.Contains(found, object) {
				found = append(found, object)
			}
		}
	}
	return found, nil
}

func (store *store) IndexKeys(name, value string) (keys []string, err error) {
	found, err := store.ByIndex(name, value)
	for _, object := range found {
		key, err := cache.MetaNamespaceKeyFunc(object)
		if err != nil {
			return nil, cache.KeyError{Obj: object, Err: err}
		}
		keys = append(keys, key)
	}
	return keys, err
}

func (store *store) ListIndexFuncValues(name string) (values []string) {
	index, err := store.index(name)
	if err != nil {
		store.host.Log().Error("can't read an index: "+err.Error(), "kind", store.kind)
	}
	for value := range index {
		values = append(values, value)
	}
	return values
}

func (store *store) ByIndex(name, value string) ([]any, error) {
	index, err := store.index(name)
	return index[value], err
}

func (store *store) GetIndexers() cache.Indexers { return store.indexers }

func (store *store) AddIndexers(indexers cache.Indexers) error {
	for name, indexer := range indexers {
		if _, isThere := store.indexers[name]; isThere {
			return fmt.Errorf("the informer of %s has an index with the name %s already", store.kind, name)
		}
		store.indexers[name] = indexer
	}
	return nil
}

func (store *store) missing(name string) error {
	return fmt.Errorf("the informer of %s has no index with the name %s", store.kind, name)
}

// index returns the objects by their values of an index, as they were when this call first needed them.
func (store *store) index(name string) (map[string][]any, error) {
	indexer, isThere := store.indexers[name]
	if !isThere {
		return nil, store.missing(name)
	}
	if store.built != *store.calls || store.indexes == nil {
		store.built, store.indexes = *store.calls, map[string]map[string][]any{}
	}
	if index, isBuilt := store.indexes[name]; isBuilt {
		return index, nil
	}
	all, err := store.list()
	if err != nil {
		return nil, err
	}
	index := map[string][]any{}
	for _, object := range all {
		values, err := indexer(object)
		if err != nil {
			return nil, fmt.Errorf("the index %s of %s: %w", name, store.kind, err)
		}
		for _, value := range values {
			index[value] = append(index[value], object)
		}
	}
	store.indexes[name] = index
	return index, nil
}
