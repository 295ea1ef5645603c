package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// line returns a line of templates.tsv: the hash of a template, the number of collisions or `-`, and the template in JSON.
func line(template *v1.PodTemplateSpec, collisions *int32) []byte {
	template = stored(template)
	text, err := json.Marshal(template)
	check(err)
	count := "-"
	if collisions != nil {
		count = fmt.Sprint(*collisions)
	}
	return fmt.Appendf(nil, "%s\t%s\t%s\n", computeHash(template, collisions), count, text)
}

// stored returns a template as a client gets it from the API server, which stores objects in protobuf.
func stored(template *v1.PodTemplateSpec) *v1.PodTemplateSpec {
	bytes, err := template.Marshal()
	check(err)
	var read v1.PodTemplateSpec
	check(read.Unmarshal(bytes))
	return read.DeepCopy()
}

// computeHash does the same as ComputeHash of k8s.io/kubernetes/pkg/controller, which needs all of Kubernetes.
func computeHash(template *v1.PodTemplateSpec, collisions *int32) string {
	hash := fnv.New32a()
	fmt.Fprint(hash, dump.ForHash(*template))
	if collisions != nil {
		count := make([]byte, 8)
		binary.LittleEndian.PutUint32(count, uint32(*collisions))
		hash.Write(count)
	}
	return utilrand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
}

// plainTemplates returns templates as users write them.
func plainTemplates() []byte {
	var lines []byte
	web := v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web", Image: "nginx:1"}}},
	}
	lines = append(lines, line(&v1.PodTemplateSpec{}, nil)...)
	lines = append(lines, line(&web, nil)...)
	for _, collisions := range []int32{0, 1, 2, 1000, math.MaxInt32, -1} {
		lines = append(lines, line(&web, &collisions)...)
	}
	return lines
}

// fullTemplates returns a template for each struct, in which all of its fields have values.
func fullTemplates(random *rand.Rand) []byte {
	all := types{map[string]string{}, map[string]reflect.Type{}}
	all.add(reflect.TypeFor[v1.PodTemplateSpec]())
	var lines []byte
	for _, name := range slices.Sorted(maps.Keys(all.named)) {
		if goType := all.named[name]; goType.Kind() == reflect.Struct && !slices.Contains(special, goType) {
			var template v1.PodTemplateSpec
			full := filler{Rand: random, full: true}
			if !full.reach(reflect.ValueOf(&template).Elem(), goType, map[reflect.Type]bool{}) {
				fail("can't reach %s", name)
			}
			lines = append(lines, line(&template, nil)...)
		}
	}
	return lines
}

// randomTemplates returns templates in which random fields have random values.
func randomTemplates(random *rand.Rand, count int) []byte {
	var lines bytes.Buffer
	for range count {
		var template v1.PodTemplateSpec
		// From nearly empty ones to those with some thousand values.
		fill := filler{Rand: random, chance: 0.03 + 0.25*random.Float64()*random.Float64()}
		fill.value(reflect.ValueOf(&template).Elem())
		var collisions *int32
		if random.Intn(3) == 0 {
			count := int32(random.Intn(3))
			collisions = &count
		}
		lines.Write(line(&template, collisions))
	}
	return lines.Bytes()
}

// filler fills values. A value in a struct is set with the probability `chance`. If `full`, what is set is not zero or empty.
type filler struct {
	*rand.Rand
	chance float64
	full   bool
}

// reach sets all fields of the first value of a type in a value, and what leads there. It returns whether there is one.
func (f filler) reach(value reflect.Value, goal reflect.Type, visited map[reflect.Type]bool) bool {
	goType := value.Type()
	if goType == goal {
		for index := range value.NumField() {
			f.set(value.Field(index))
		}
		return true
	}
	switch goType.Kind() {
	case reflect.Pointer:
		target := reflect.New(goType.Elem())
		return f.reach(target.Elem(), goal, visited) && assign(value, target)
	case reflect.Slice:
		list := reflect.MakeSlice(goType, 1, 1)
		return f.reach(list.Index(0), goal, visited) && assign(value, list)
	case reflect.Struct:
		if visited[goType] || slices.Contains(special, goType) {
			return false
		}
		visited[goType] = true
		for index := range value.NumField() {
			if f.reach(value.Field(index), goal, visited) {
				return true
			}
		}
	}
	return false
}

func assign(value, to reflect.Value) bool {
	value.Set(to)
	return true
}

// value gives a value: to a struct, random fields.
func (f filler) value(value reflect.Value) {
	if f.setSpecial(value) {
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for index := range value.NumField() {
			field := value.Field(index)
			isPart := field.Kind() == reflect.Struct && !slices.Contains(special, field.Type())
			// Nearly all pods have containers.
			isPod := value.Type() == reflect.TypeFor[v1.PodSpec]()
			isContainers := isPod && value.Type().Field(index).Name == "Containers"
			if isPart || isContainers || f.Float64() < f.chance {
				f.set(field)
			}
		}
	default:
		f.set(value)
	}
}

// set gives a value, in most cases not the zero value.
func (f filler) set(value reflect.Value) {
	if f.setSpecial(value) {
		return
	}
	goType := value.Type()
	switch value.Kind() {
	case reflect.Struct:
		f.value(value)
	case reflect.Pointer:
		target := reflect.New(goType.Elem())
		f.value(target.Elem())
		value.Set(target)
	case reflect.Slice:
		list := reflect.MakeSlice(goType, f.length(), 4)
		for index := range list.Len() {
			f.value(list.Index(index))
		}
		value.Set(list)
	case reflect.Map:
		entries := reflect.MakeMap(goType)
		for range f.length() {
			key, entry := reflect.New(goType.Key()).Elem(), reflect.New(goType.Elem()).Elem()
			key.SetString(f.text())
			f.value(entry)
			entries.SetMapIndex(key, entry)
		}
		value.Set(entries)
	case reflect.String:
		value.SetString(f.text())
	case reflect.Bool:
		value.SetBool(f.Intn(4) > 0)
	case reflect.Int32:
		value.SetInt(pick(f, []int64{1, 30, int64(f.Int31()), 0, -1, math.MaxInt32, math.MinInt32}))
	case reflect.Int64:
		value.SetInt(pick(f, []int64{1, 1000, f.Int63(), 0, -1, 1 << 53, math.MaxInt64, math.MinInt64}))
	default:
		fail("can't set a %s", goType)
	}
	if f.full && goType.Kind() != reflect.Struct && value.IsZero() {
		f.set(value)
	}
}

func (f filler) setSpecial(value reflect.Value) bool {
	switch value := value.Addr().Interface().(type) {
	case *metav1.FieldsV1:
		value.SetRawString(`{"f:metadata":{}}`)
	case *metav1.Time:
		*value = metav1.Unix(pick(f, []int64{0, 1, 1e9, int64(f.Int31()), -1}), 0)
	case *resource.Quantity:
		*value = resource.MustParse(f.quantity())
	case *intstr.IntOrString:
		*value = pick(f, []intstr.IntOrString{intstr.FromInt32(f.Int31()), intstr.FromString(f.text()), intstr.FromInt32(0)})
	default:
		return false
	}
	return true
}

// length returns the length of a list or a map, rarely 0.
func (f filler) length() int {
	if f.full {
		return 1
	}
	return pick(f, []int{1, 1, 1, 2, 2, 3, 0})
}

func (f filler) text() string {
	return pick(f, []string{
		"a", "app", "web-1", "example.com/app", "v1", "Always", "nginx:1.27", "", " ", "a b", "0", "true", "<nil>", "]", "{}",
		"line\nbreak\ttab", `"quoted" \ <&>`, "äöü", "日本語", "\u2028", "🙂", "\x00\x7f", "Ä", "~", fmt.Sprint(f.Intn(1000)),
		fmt.Sprintf("x%x", f.Uint64()),
	})
}

func pick[T any](f filler, from []T) T {
	return from[f.Intn(len(from))]
}
