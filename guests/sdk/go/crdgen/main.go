// Crdgen prints the CustomResourceDefinitions of the Go types in some packages, as JSON. `flyball crd` builds and runs it.
//
// It is controller-gen's own generator, with its markers. controller-gen looks for types that embed metav1.TypeMeta and
// metav1.ObjectMeta. Crdgen also finds structs whose field `metadata` is a flyball.Meta and that have the marker
// `+kubebuilder:object:root=true`, so that a plugin needs no apimachinery.
package main

import (
	"encoding/json"
	"fmt"
	"go/types"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

const (
	sdk    = "flyball.dev/sdk"
	metav1 = "k8s.io/apimachinery/pkg/apis/meta/v1"
	// root marks a type whose objects the API server stores.
	root = "kubebuilder:object:root"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run prints the definitions of the types in the packages that these patterns name.
func run(patterns []string) error {
	roots, err := loader.LoadRoots(patterns...)
	if err != nil {
		return fmt.Errorf("can't load the packages: %w", err)
	}
	if len(roots) == 0 {
		return nil
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return err
	}
	marker, err := markers.MakeDefinition(root, markers.DescribesType, true)
	if err != nil {
		return err
	}
	if err := registry.Register(marker); err != nil {
		return err
	}
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry},
		Checker:   &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
	}
	crd.AddKnownTypes(parser)
	parser.PackageOverrides[sdk] = describeSDK
	for _, pkg := range roots {
		parser.NeedPackage(pkg)
	}
	kinds := crd.FindKubeKinds(parser, metav1Of(roots))
	for ident, info := range parser.Types {
		kind := schema.GroupKind{Group: parser.GroupVersions[ident.Package].Group, Kind: info.Name}
		if isRoot(ident.Package, info) && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	definitions := []map[string]any{}
	for _, kind := range kinds {
		if kind.Group == "" {
			return fmt.Errorf("%s has no group: its package needs a comment `+groupName=example.com` before `package`", kind.Kind)
		}
		parser.NeedCRDFor(kind, nil)
		if definition, ok := parser.CustomResourceDefinitions[kind]; ok {
			printed, err := printable(definition)
			if err != nil {
				return err
			}
			definitions = append(definitions, printed)
		}
	}
	// Only declarations that a schema needs are checked, so errors of types are no errors of the packages.
	if loader.PrintErrors(roots, packages.TypeError) {
		return fmt.Errorf("can't make CustomResourceDefinitions of the types, with the errors above")
	}
	encoder := json.NewEncoder(os.Stdout)
	for _, definition := range definitions {
		if err := encoder.Encode(definition); err != nil {
			return err
		}
	}
	return nil
}

// metav1Of returns the package that controller-gen finds the metadata of objects in; one of no use if none imports it.
func metav1Of(roots []*loader.Package) *loader.Package {
	if found := crd.FindMetav1(roots); found != nil {
		return found
	}
	return roots[0]
}

// isRoot returns whether a type has the marker of a root and the SDK's metadata.
func isRoot(pkg *loader.Package, info *markers.TypeInfo) bool {
	if marked, ok := info.Markers.Get(root).(bool); !ok || !marked {
		return false
	}
	pkg.NeedTypesInfo()
	for _, field := range info.Fields {
		named, ok := pkg.TypesInfo.TypeOf(field.RawField.Type).(*types.Named)
		if ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == sdk && named.Obj().Name() == "Meta" {
			return true
		}
	}
	return false
}

// describeSDK sets the schemas of the SDK's types.
func describeSDK(parser *crd.Parser, pkg *loader.Package) {
	text := v1.JSONSchemaProps{Type: "string"}
	one := func(name string) crd.TypeIdent { return crd.TypeIdent{Package: pkg, Name: name} }
	parser.Schemata[one("Meta")] = v1.JSONSchemaProps{Type: "object"}
	parser.Schemata[one("Condition")] = v1.JSONSchemaProps{
		Type:     "object",
		Required: []string{"type", "status"},
		Properties: map[string]v1.JSONSchemaProps{
			"type":               text,
			"status":             {Type: "string", Enum: []v1.JSON{quoted("True"), quoted("False"), quoted("Unknown")}},
			"observedGeneration": {Type: "integer", Format: "int64"},
			"lastTransitionTime": {Type: "string", Format: "date-time"},
			"reason":             text,
			"message":            text,
		},
	}
	parser.AddPackage(pkg)
}

func quoted(text string) v1.JSON { return v1.JSON{Raw: fmt.Appendf(nil, "%q", text)} }

// printable returns a definition without its status, and without a schema of metadata, which the API server has itself.
func printable(definition v1.CustomResourceDefinition) (map[string]any, error) {
	for _, version := range definition.Spec.Versions {
		whole := version.Schema.OpenAPIV3Schema
		whole.Required = slices.DeleteFunc(whole.Required, func(name string) bool { return name == "metadata" })
		delete(whole.Properties, "metadata")
	}
	text, err := json.Marshal(definition)
	if err != nil {
		return nil, err
	}
	var printed map[string]any
	if err := json.Unmarshal(text, &printed); err != nil {
		return nil, err
	}
	delete(printed, "status")
	// The time of its creation, which is null.
	printed["metadata"] = map[string]any{"name": definition.Name}
	return printed, nil
}
