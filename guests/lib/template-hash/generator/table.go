package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// special has the types whose JSON is not derived from their fields. The library has code for each.
var special = []reflect.Type{
	reflect.TypeFor[metav1.FieldsV1](),
	reflect.TypeFor[metav1.Time](),
	reflect.TypeFor[resource.Quantity](),
	reflect.TypeFor[intstr.IntOrString](),
}

// types has the definition of each named type that was visited, and the type itself, by the name that the dump prints.
type types struct {
	definitions map[string]string
	named       map[string]reflect.Type
}

// table returns a line for each named type that a pod template consists of.
func table() []byte {
	all := types{map[string]string{}, map[string]reflect.Type{}}
	all.add(reflect.TypeFor[v1.PodTemplateSpec]())
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all.definitions)) {
		fmt.Fprintf(&text, "%s %s\n", name, all.definitions[name])
	}
	return text.Bytes()
}

// add adds the lines of a type and of those that it consists of.
func (t types) add(goType reflect.Type) {
	switch goType.Kind() {
	case reflect.Pointer:
		t.addElement(goType)
	case reflect.Slice, reflect.Map:
		t.addElement(goType)
	case reflect.Struct, reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
	default:
		fail("%s: values of this kind are not supported", goType)
	}
	if goType.PkgPath() == "" {
		return
	}
	name := goType.String()
	if known, ok := t.named[name]; ok {
		if known != goType {
			fail("two types are printed as %s", name)
		}
		return
	}
	t.named[name] = goType
	t.definitions[name] = t.definition(goType)
}

// addElement adds the type of the elements. The dump prints no type of an element of a list or a map, and another one of a pointer
// in it, and prints an object without a size as a cycle if there is a pointer to another one.
func (t types) addElement(goType reflect.Type) {
	element := goType.Elem()
	switch {
	case element.Kind() == reflect.Pointer:
		fail("%s: pointers in lists, maps and pointers are not supported", goType)
	case goType.Kind() == reflect.Pointer && element.Size() == 0:
		fail("%s: pointers to objects without a size are not supported", goType)
	case goType.Kind() == reflect.Map && goType.Key().Kind() != reflect.String:
		fail("%s: keys that are not strings are not supported", goType)
	}
	t.add(element)
}

func (t types) definition(goType reflect.Type) string {
	switch {
	case slices.Contains(special, goType):
		return "special"
	case reflect.PointerTo(goType).Implements(marshaler) || reflect.PointerTo(goType).Implements(unmarshaler):
		fail("%s has custom JSON", goType)
	case goType.Kind() == reflect.Map:
		return fmt.Sprintf("map[%s]%s", goType.Key(), goType.Elem())
	case goType.Kind() != reflect.Struct:
		return goType.Kind().String()
	}
	fields := []string{"struct"}
	for field := range goType.Fields() {
		fields = append(fields, t.field(goType, field))
	}
	return strings.Join(fields, " ")
}

// field returns the part of a struct's line for a field: its name in Go, its name in JSON unless that is the name in Go with a
// small letter, and its type.
func (t types) field(owner reflect.Type, field reflect.StructField) string {
	t.add(field.Type)
	jsonName, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case field.Anonymous && jsonName == "":
		return fmt.Sprintf("%s:...%s", field.Name, field.Type)
	case jsonName == "" || jsonName == "-":
		fail("%s.%s is not in JSON", owner, field.Name)
	case jsonName == strings.ToLower(field.Name[:1])+field.Name[1:]:
		return fmt.Sprintf("%s:%s", field.Name, field.Type)
	}
	return fmt.Sprintf("%s=%s:%s", field.Name, jsonName, field.Type)
}

// Types with custom JSON implement one of these.
var (
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)
