package main

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// kubernetesAPIs is the module of Kubernetes' own types.
const kubernetesAPIs = "k8s.io/api/"

// plugin is the plugin's module.
type plugin struct {
	request
	project *project
	setUp   *setUp
	// schemes are functions that add types to the scheme.
	schemes []named
	// clusterScoped are types of kinds without a namespace.
	clusterScoped []named
	role          string
}

// named is a name in a package.
type named struct{ path, name string }

// scheme finds the types that the plugin needs. Each group adds to the plugin's size, so that of Kubernetes' own groups
// only those are taken that the project imports.
func (plugin *plugin) scheme(report *report) {
	add := func(one named) {
		if !slices.Contains(plugin.schemes, one) {
			plugin.schemes = append(plugin.schemes, one)
		}
	}
	of := plugin.project
	if main := plugin.setUp.main; main != nil {
		for _, source := range main.sources {
			for _, added := range of.added(source) {
				if !strings.HasPrefix(added.path, "k8s.io/client-go/") {
					add(added)
				}
			}
		}
	}
	used := of.reachable(plugin.imported())
	for _, one := range used {
		if plugin.setUp.main == nil && one.declaresFunction("AddToScheme") {
			add(named{one.path, "AddToScheme"})
		}
		for _, source := range one.sources {
			for _, at := range of.imports(source) {
				if strings.HasPrefix(at, kubernetesAPIs) && strings.Count(at, "/") == 3 {
					add(named{at, "AddToScheme"})
				}
			}
		}
	}
	slices.SortFunc(plugin.schemes, func(a, b named) int { return strings.Compare(a.path, b.path) })
	if len(plugin.schemes) == 0 {
		report.leave("no types are added to a scheme: add those that the reconcilers read and write to Scheme in main.go")
	}
	for _, one := range used {
		if slices.ContainsFunc(plugin.schemes, func(scheme named) bool { return scheme.path == one.path }) {
			plugin.clusterScoped = append(plugin.clusterScoped, of.clusterScoped(one)...)
		}
	}
}

// imported returns the paths that the code of the set-up may use.
func (plugin *plugin) imported() (paths []string) {
	text := strings.Join(plugin.setUp.statements, "\n") + strings.Join(plugin.setUp.declarations, "\n")
	for name, at := range plugin.setUp.imports {
		if uses(text, name) {
			paths = append(paths, at)
		}
	}
	return paths
}

// uses says whether a text uses a package of this name.
func uses(text, name string) bool {
	return regexp.MustCompile(`(^|[^.\w])` + regexp.QuoteMeta(name) + `\.\w`).MatchString(text)
}

// added returns the functions with which a file adds types to a scheme.
func (project *project) added(source *source) (found []named) {
	imports := project.imports(source)
	ast.Inspect(source.File, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall || len(call.Args) != 1 {
			return true
		}
		function, isSelector := call.Fun.(*ast.SelectorExpr)
		if !isSelector || function.Sel.Name != "AddToScheme" && function.Sel.Name != "Install" {
			return true
		}
		name := strings.SplitN(project.code(source, function), ".", 2)
		if at := imports[name[0]]; at != "" && len(name) == 2 {
			found = append(found, named{at, name[1]})
		}
		return true
	})
	return found
}

func (of *goPackage) declaresFunction(name string) bool {
	for _, source := range of.sources {
		for _, declaration := range source.Decls {
			if declares(declaration, name) {
				return true
			}
		}
	}
	return false
}

// clusterScoped returns the types of a package whose markers say that their objects have no namespace.
func (project *project) clusterScoped(of *goPackage) (found []named) {
	for _, source := range of.sources {
		last := source.Name.End()
		for _, declaration := range source.Decls {
			general, isGeneral := declaration.(*ast.GenDecl)
			if isGeneral && len(general.Specs) == 1 {
				if spec, isType := general.Specs[0].(*ast.TypeSpec); isType {
					for _, comment := range source.Comments {
						if comment.Pos() > last && comment.End() < spec.Pos() && isClusterScoped(comment) {
							found = append(found, named{of.path, spec.Name.Name})
							break
						}
					}
				}
			}
			last = declaration.End()
		}
	}
	return found
}

func isClusterScoped(comment *ast.CommentGroup) bool {
	for _, line := range comment.List {
		text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
		isResource := strings.HasPrefix(text, "+kubebuilder:resource:")
		if isResource && strings.Contains(text, "scope=Cluster") || text == "+genclient:nonNamespaced" {
			return true
		}
	}
	return false
}

// alias returns the usual name of a package of an API: `corev1` for `k8s.io/api/core/v1`.
func alias(of string) string {
	version := path.Base(of)
	if regexp.MustCompile(`^v\d+((alpha|beta)\d+)?$`).MatchString(version) {
		group := regexp.MustCompile(`[^a-z0-9]`).ReplaceAllString(strings.ToLower(path.Base(path.Dir(of))), "")
		return group + version
	}
	return usualName(of)
}
