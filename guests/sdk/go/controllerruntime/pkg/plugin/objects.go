package plugin

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/sdk"
)

// clear empties the value of a pointer, so that fields that the JSON lacks are empty after decoding.
func clear(object any) {
	value := reflect.ValueOf(object).Elem()
	value.Set(reflect.Zero(value.Type()))
}

func setItems(list runtime.Object, items []runtime.Object) error {
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("can't fill %T: %w", list, err)
	}
	return nil
}

// encode returns an object as JSON, with its kind.
func encode(object runtime.Object, of kind) ([]byte, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("can't write %T as %s: %w", object, of.text, err)
	}
	text, err = withKind(text, of)
	if err != nil {
		return nil, fmt.Errorf("can't write %T as %s: %w", object, of.text, err)
	}
	return text, nil
}

// withKind sets the kind in an object's JSON.
func withKind(text []byte, of kind) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	version, kind := of.GroupVersionKind.ToAPIVersionAndKind()
	fields["apiVersion"], fields["kind"] = quote(version), quote(kind)
	return json.Marshal(fields)
}

func quote(text string) json.RawMessage {
	quoted, _ := json.Marshal(text)
	return quoted
}

// options returns options of the API as the world takes them.
func options(of any) (flyball.Object, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	var all flyball.Object
	err = json.Unmarshal(text, &all)
	return all, err
}
