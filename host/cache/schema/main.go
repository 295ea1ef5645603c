// Schema prints how the API server writes each kind that it keeps itself in protobuf and in JSON, as the types of
// k8s.io/api say it: what src/protobuf/schema.txt holds, whose lines src/protobuf/schema.rs explains.
//
//	go run . > ../src/protobuf/schema.txt
//
// To move to another release, change the versions in go.mod, run `go mod tidy`, and run this.
package main

import (
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// special are the types whose JSON is not that of their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "micro-time",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "int-or-string",
	reflect.TypeFor[runtime.RawExtension](): "raw",
	reflect.TypeFor[metav1.FieldsV1]():      "raw",
}

// oldest is the oldest release of Kubernetes whose kinds are printed: its minor version.
const oldest = 30

// marshaler is what such a type has.
var marshaler = reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()

// messages holds the line of each type that was met, by the type's name.
type messages map[string]string

func main() {
	all := messages{}
	kinds := map[string]string{}
	types := scheme.Scheme.AllKnownTypes()
	for gvk, goType := range types {
		_, hasMetadata := goType.FieldByName("ObjectMeta")
		_, hasList := types[gvk.GroupVersion().WithKind(gvk.Kind+"List")]
		if hasMetadata && hasList && !isGone(goType) {
			all.add(goType)
			kinds[kind(gvk)] = name(goType)
		}
	}
	for kind, goType := range map[string]reflect.Type{
		"meta.k8s.io/v1/PartialObjectMetadata": reflect.TypeFor[metav1.PartialObjectMetadata](),
		"v1/Status":                            reflect.TypeFor[metav1.Status](),
	} {
		all.add(goType)
		kinds[kind] = name(goType)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("%s = %s\n", kind, kinds[kind])
	}
	for _, message := range slices.Sorted(maps.Keys(all)) {
		fmt.Printf("%s:%s\n", message, all[message])
	}
}

// add adds the line of a struct, and those of all that its fields hold.
func (m messages) add(goType reflect.Type) {
	if _, known := m[name(goType)]; known {
		return
	}
	m[name(goType)] = "" // Types hold each other.
	var line strings.Builder
	for field := range goType.Fields() {
		if tag, ok := field.Tag.Lookup("protobuf"); ok {
			fmt.Fprintf(&line, " %s", m.field(goType, field, tag))
		} else if field.Type != reflect.TypeFor[metav1.TypeMeta]() {
			fail("%s.%s is not in protobuf", goType, field.Name)
		}
	}
	m[name(goType)] = line.String()
}

// field is what a line says of a field: its name, its number, its type, and what becomes of it where it is empty.
func (m messages) field(owner reflect.Type, field reflect.StructField, tag string) string {
	number := strings.Split(tag, ",")[1]
	options := strings.Split(field.Tag.Get("json"), ",")
	jsonName, options := options[0], options[1:]
	if slices.Contains(options, "inline") {
		m.add(field.Type)
		return fmt.Sprintf("%s:...%s", number, name(field.Type))
	}
	empty := ""
	// A struct is never empty.
	if slices.Contains(options, "omitempty") && field.Type.Kind() != reflect.Struct {
		empty = "?"
	}
	if slices.Contains(options, "omitzero") {
		if special[field.Type] != "time" {
			fail("%s.%s: only a time can be left out as zero", owner, field.Name)
		}
		return fmt.Sprintf("%s:%s:*time?", jsonName, number)
	}
	return fmt.Sprintf("%s:%s:%s%s", jsonName, number, m.typeName(owner, field.Type), empty)
}

func (m messages) typeName(owner, goType reflect.Type) string {
	if name, ok := special[goType]; ok {
		return name
	}
	switch goType.Kind() {
	case reflect.Pointer:
		return "*" + m.typeName(owner, goType.Elem())
	case reflect.Map:
		if goType.Key().Kind() != reflect.String {
			fail("%s: %s has keys that are no strings", owner, goType)
		}
		return "{}" + m.typeName(owner, goType.Elem())
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		// A named list is a message of its own.
		if goType.Name() != "" && goType.PkgPath() != "" && hasMethod(goType, "Marshal") {
			return "values"
		}
		return "[]" + m.typeName(owner, goType.Elem())
	case reflect.Struct:
		if goType.Implements(marshaler) || reflect.PointerTo(goType).Implements(marshaler) {
			fail("%s holds a %s, which makes its own JSON", owner, goType)
		}
		m.add(goType)
		return name(goType)
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64:
		return "int"
	}
	fail("%s holds a %s, which is not known", owner, goType)
	return ""
}

// isGone tells whether no release serves a kind any more, of those that count.
func isGone(goType reflect.Type) bool {
	limited, ok := reflect.New(goType).Interface().(interface{ APILifecycleRemoved() (int, int) })
	if !ok {
		return false
	}
	_, removed := limited.APILifecycleRemoved()
	return removed <= oldest
}

func hasMethod(goType reflect.Type, method string) bool {
	_, has := reflect.PointerTo(goType).MethodByName(method)
	return has
}

// name is a type's name with the last two parts of its package, as in core/v1.Pod.
func name(goType reflect.Type) string {
	folder, version := path.Split(goType.PkgPath())
	return path.Base(folder) + "/" + version + "." + goType.Name()
}

func kind(gvk schema.GroupVersionKind) string {
	return strings.TrimPrefix(gvk.Group+"/"+gvk.Version+"/"+gvk.Kind, "/")
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "schema: "+format+"\n", args...)
	os.Exit(1)
}
