package flyball

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// Kind is a kind of object that a controller reads into values of type T: a struct with JSON tags and the fields that
// it reads, a type of k8s.io/api, or [Object].
type Kind[T any] struct {
	// Name is the kind, as in `apps/v1/Deployment` or `v1/Pod`.
	Name string
	// Fields are the paths that are read; `.` is the whole object. Empty for all fields that the watch declares.
	Fields []string
}

// KindOf returns a kind. Without fields, it reads the fields of the struct T: the path of each field that isn't a
// struct itself.
func KindOf[T any](name string, fields ...string) Kind[T] {
	splitKind(name)
	if len(fields) == 0 {
		fields = fieldsOf(reflect.TypeFor[T](), "", nil)
	}
	return Kind[T]{name, fields}
}

// Get returns the cached object of this name, with the fields of the kind; nil if the cache holds none. The namespace
// is empty for a cluster-scoped object.
func (kind Kind[T]) Get(host *Host, namespace, name string) (*T, error) {
	return get[T](host, kind.Name, namespace, name, kind.Fields)
}

// GetByKey does the same as Get, with a key.
func (kind Kind[T]) GetByKey(host *Host, key Key) (*T, error) {
	return kind.Get(host, key.Namespace, key.Name)
}

// List returns the cached objects that match all conditions, ordered by namespace and name. It holds all of them at
// once; see Each for another way.
func (kind Kind[T]) List(host *Host, conditions ...Where) ([]T, error) {
	var all []T
	for object, err := range kind.Each(host, conditions...) {
		if err != nil {
			return nil, err
		}
		all = append(all, *object)
	}
	return all, nil
}

// Each iterates over the cached objects that match all conditions, with at most one page of them in memory. An error
// ends the iteration.
func (kind Kind[T]) Each(host *Host, conditions ...Where) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		query := newQuery(kind.Name, conditions)
		page, err := host.world.ListerList(query, Projection{Fields: kind.Fields}, 0)
		for {
			if err != nil {
				yield(nil, err)
				return
			}
			var objects []T
			if err := json.Unmarshal(page.Items, &objects); err != nil {
				drop(page)
				yield(nil, fmt.Errorf("a list of %s is malformed: %w", kind.Name, err))
				return
			}
			for i := range objects {
				if !yield(&objects[i], nil) {
					drop(page)
					return
				}
			}
			if page.Next == nil {
				return
			}
			page, err = page.Next(0)
		}
	}
}

// Count returns the number of cached objects that match all conditions. No object crosses into the sandbox.
func (kind Kind[T]) Count(host *Host, conditions ...Where) (int, error) {
	return host.world.ListerCount(newQuery(kind.Name, conditions))
}

// Live reads the object of this name from the API server. An object that does not exist is an error: see [IsNotFound].
func (kind Kind[T]) Live(host *Host, namespace, name string) (*T, error) {
	object := new(T)
	read := LiveObject(kind.Name, namespace, name, kind.Fields...)
	return object, host.Read(read)[0].Into(object)
}

// Get returns the cached object of this name, with all fields that the watch declares; nil if the cache holds none.
func Get[T any](host *Host, kind, namespace, name string) (*T, error) {
	return get[T](host, kind, namespace, name, nil)
}

func get[T any](host *Host, kind, namespace, name string, fields []string) (*T, error) {
	if slices.Equal(fields, []string{"."}) {
		fields = nil
	}
	text, err := host.world.ListerGet(kind, namespace, name, fields)
	if err != nil || text == nil {
		return nil, err
	}
	object := new(T)
	if err := json.Unmarshal(text, object); err != nil {
		return nil, fmt.Errorf("%s %s is malformed: %w", kind, Key{namespace, name}, err)
	}
	return object, nil
}

func drop(page Page) {
	if page.Drop != nil {
		page.Drop()
	}
}

// fieldsOf returns the paths of the fields of a struct, by their JSON tags. A field has no fields below it if it is the
// metadata, has its own JSON decoder, isn't a struct, or is a struct within itself. `above` are the structs around this
// one.
func fieldsOf(of reflect.Type, path string, above []reflect.Type) []string {
	if of.Kind() == reflect.Pointer {
		return fieldsOf(of.Elem(), path, above)
	}
	isWhole := of.Kind() != reflect.Struct || path == "metadata" || slices.Contains(above, of) ||
		reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch {
	case isWhole && path == "":
		return []string{"."}
	case isWhole:
		return []string{path}
	}
	above = append(slices.Clip(above), of)
	var fields []string
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case name == "" && field.Anonymous:
			fields = append(fields, fieldsOf(field.Type, path, above)...)
		default:
			if name == "" {
				name = field.Name
			}
			fields = append(fields, fieldsOf(field.Type, join(path, name), above)...)
		}
	}
	// The API server writes both with each object, so a watch doesn't declare them.
	return slices.DeleteFunc(fields, func(field string) bool { return field == "apiVersion" || field == "kind" })
}

// join appends a segment to a field path. A name that holds more than letters and digits is quoted.
func join(path, name string) string {
	if strings.ContainsFunc(name, func(c rune) bool { return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') }) {
		return path + "['" + name + "']"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
