// Schema generates two files from the types of k8s.io/api: the list of Kubernetes' own kinds, and the protobuf and JSON
// fields of each. kubernetes_kinds.rs and schema.rs, beside the files, describe the formats.
//
//	go run . ../../types/src/kubernetes_kinds.txt ../src/protobuf/schema.txt
//
// To update to another release, change the versions in go.mod, run `go mod tidy`, and run this program.
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

// special has the types whose JSON is not derived from their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "micro-time",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "int-or-string",
	reflect.TypeFor[runtime.RawExtension](): "raw",
	reflect.TypeFor[metav1.FieldsV1]():      "raw",
}

// oldest is the minor version of the oldest release of Kubernetes whose kinds are printed.
const oldest = 30

// marshaler is implemented by types with custom JSON.
var marshaler = reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()

// messages has the line of each type that was visited, by the type's name.
type messages map[string]string

func main() {
	all := messages{}
	kinds := map[string]string{}
	types := scheme.Scheme.AllKnownTypes()
	for gvk, goType := range types {
		_, hasMetadata := goType.FieldByName("ObjectMeta")
		_, hasList := types[gvk.GroupVersion().WithKind(gvk.Kind+"List")]
		if hasMetadata && hasList && !isRemoved(goType) {
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
	if len(os.Args) != 3 {
		fail("usage: go run . KINDS SCHEMA")
	}
	write(os.Args[1], kinds, " = ")
	write(os.Args[2], all, ":")
}

// write writes a line for each key, in their order: the key, the separator and the value.
func write(file string, lines map[string]string, separator string) {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&text, "%s%s%s\n", key, separator, lines[key])
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		fail("%v", err)
	}
}

// add adds the lines of a struct and of the types of its fields.
func (m messages) add(goType reflect.Type) {
	if _, known := m[name(goType)]; known {
		return
	}
	m[name(goType)] = "" // Types may be recursive.
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

// field returns the part of a line for a field: its name, its number, its type, and whether it is omitted if empty.
func (m messages) field(owner reflect.Type, field reflect.StructField, tag string) string {
	number := strings.Split(tag, ",")[1]
	options := strings.Split(field.Tag.Get("json"), ",")
	jsonName, options := options[0], options[1:]
	if field.Anonymous && jsonName == "" {
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
			fail("%s.%s: omitzero is supported only for times", owner, field.Name)
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
			fail("%s: %s has keys that are not strings", owner, goType)
		}
		return "{}" + m.typeName(owner, goType.Elem())
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		// A named list has its own message.
		if goType.Name() != "" && goType.PkgPath() != "" && hasMethod(goType, "Marshal") {
			return "values"
		}
		return "[]" + m.typeName(owner, goType.Elem())
	case reflect.Struct:
		if goType.Implements(marshaler) || reflect.PointerTo(goType).Implements(marshaler) {
			fail("%s has a %s, which has custom JSON", owner, goType)
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
	fail("%s has a %s, which is not supported", owner, goType)
	return ""
}

// isRemoved reports whether no supported release serves a kind.
func isRemoved(goType reflect.Type) bool {
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

// name returns a type's name with the last two parts of its package, such as core/v1.Pod.
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
