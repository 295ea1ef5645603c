// Warnings writes the warnings that kube-controller-manager finds in the policies of policies.json, with the schemas of
// documents.json: for a new release, or after policies were added, which need only a spec. Copy this file into a folder with the
// go.mod and go.sum of tests/controlplane/go, changed to that release, and run
//
//	go run -mod=mod warnings.go PATH/guests/controllers/validatingadmissionpolicy-status/testdata
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The names of types end with the nanoseconds of the time.
var (
	object     = regexp.MustCompile(`\b(Gang|Crew|Widget)\d+`)
	parameters = regexp.MustCompile(`\b(Limit)\d+`)
)

type policy struct {
	Spec     json.RawMessage        `json:"spec"`
	Warnings []v1.ExpressionWarning `json:"warnings"`
}

// documents resolves schemas like the resolver of kube-controller-manager that asks the API server.
type documents map[string]struct {
	Components struct {
		Schemas map[string]*spec.Schema `json:"schemas"`
	} `json:"components"`
}

func main() {
	folder := os.Args[1]
	var served documents
	read(filepath.Join(folder, "documents.json"), &served)
	path := filepath.Join(folder, "policies.json")
	var policies []policy
	read(path, &policies)
	checker := validating.TypeChecker{SchemaResolver: served, RestMapper: served.mapper()}
	var lines []string
	for _, one := range policies {
		var given v1.ValidatingAdmissionPolicy
		must(json.Unmarshal(one.Spec, &given.Spec))
		warnings := []string{}
		for _, warning := range checker.Check(&given) {
			warning.Warning = object.ReplaceAllString(warning.Warning, "${1}0")
			warning.Warning = parameters.ReplaceAllString(warning.Warning, "${1}1")
			warnings = append(warnings, "\n  "+text(warning))
		}
		lines = append(lines, fmt.Sprintf("{\"spec\": %s,\n \"warnings\": [%s]}", text(one.Spec), strings.Join(warnings, ",")))
	}
	must(os.WriteFile(path, []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644))
}

func (d documents) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	schemas := d["/openapi/v3/apis/"+kind.Group+"/"+kind.Version].Components.Schemas
	for name, one := range schemas {
		for _, own := range kinds(one) {
			if own == kind {
				return resolver.PopulateRefs(func(reference string) (*spec.Schema, bool) {
					found, ok := schemas[strings.TrimPrefix(reference, "#/components/schemas/")]
					return found, ok
				}, name)
			}
		}
	}
	return nil, resolver.ErrSchemaNotFound
}

// mapper knows the kinds of all documents, and one without a schema.
func (d documents) mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, document := range d {
		for _, one := range document.Components.Schemas {
			for _, kind := range kinds(one) {
				mapper.Add(kind, meta.RESTScopeNamespace)
			}
		}
	}
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Missing"}, meta.RESTScopeNamespace)
	return mapper
}

func kinds(of *spec.Schema) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	must(of.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds))
	return kinds
}

func text(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	must(encoder.Encode(value))
	return strings.TrimSpace(text.String())
}

func read(path string, value any) {
	text, err := os.ReadFile(path)
	must(err)
	must(json.Unmarshal(text, value))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
