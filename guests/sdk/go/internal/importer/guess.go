package main

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// reconciler is a type with a function SetupWithManager.
type reconciler struct {
	name string
	of   *goPackage
	at   token.Pos
	// imports are those of its file.
	imports map[string]string
	fields  []*ast.Field
}

// reconcilers returns the types with a function SetupWithManager whose only parameter is a manager.
func (project *project) reconcilers() (found []reconciler) {
	for _, of := range project.sorted() {
		for _, source := range of.sources {
			for _, declaration := range source.Decls {
				function, isFunction := declaration.(*ast.FuncDecl)
				if !isFunction || function.Recv == nil || function.Name.Name != "SetupWithManager" {
					continue
				}
				name := strings.TrimPrefix(project.code(source, function.Recv.List[0].Type), "*")
				one := reconciler{name: name, of: of, at: function.Pos()}
				if function.Type.Params.NumFields() == 1 && project.fields(&one) {
					found = append(found, one)
				}
			}
		}
	}
	return found
}

// fields finds the fields of a reconciler. It returns false if the type is no struct.
func (project *project) fields(of *reconciler) bool {
	for _, source := range of.of.sources {
		for _, declaration := range source.Decls {
			general, isGeneral := declaration.(*ast.GenDecl)
			if !isGeneral {
				continue
			}
			spec, isType := specOf(general, of.name).(*ast.TypeSpec)
			if !isType {
				continue
			}
			structure, isStructure := spec.Type.(*ast.StructType)
			if isStructure {
				of.fields, of.imports = structure.Fields.List, project.imports(source)
			}
			return isStructure
		}
	}
	return false
}

// guess sets up all reconcilers of a project without a main function that creates a manager.
func (project *project) guess(report *report) (*setUp, error) {
	all := project.reconcilers()
	all = slices.DeleteFunc(all, func(one reconciler) bool { return one.of.name == "main" || !ast.IsExported(one.name) })
	if len(all) == 0 {
		return nil, errNothing
	}
	report.note("no main function creates a manager, so that the plugin sets up all reconcilers; check the fields in main.go")
	guessed := &setUp{manager: "mgr", imports: map[string]string{}}
	for _, one := range all {
		name := one.of.name
		for guessed.imports[name] != "" && guessed.imports[name] != one.of.path {
			name = path.Base(path.Dir(one.of.path)) + name
		}
		guessed.imports[name] = one.of.path
		values := []string{}
		for _, field := range one.fields {
			given, value := project.value(one, field)
			switch {
			case value != "":
				values = append(values, given+": "+value)
			case given != "":
				report.leave("%s: the field %s of %s has no value: give it one in main.go", project.place(field.Pos()), given, one.name)
			}
		}
		text := "(&" + name + "." + one.name + "{" + strings.Join(values, ", ") + "}).SetupWithManager(mgr)"
		guessed.statements = append(guessed.statements, "if err := "+text+"; err != nil {\nreturn err\n}")
		report.Controllers = append(report.Controllers, name+"."+one.name)
	}
	return guessed, nil
}

// value returns the name of an exported field, and the value that it usually has; empty if that is not known.
func (project *project) value(of reconciler, field *ast.Field) (name, value string) {
	selector, isSelector := field.Type.(*ast.SelectorExpr)
	if pointer, isPointer := field.Type.(*ast.StarExpr); isPointer {
		selector, isSelector = pointer.X.(*ast.SelectorExpr)
	}
	if len(field.Names) > 0 {
		name = field.Names[0].Name
	} else if isSelector {
		name = selector.Sel.Name
	}
	if !ast.IsExported(name) {
		return "", ""
	}
	if !isSelector {
		return name, ""
	}
	from, isName := selector.X.(*ast.Ident)
	if !isName {
		return name, ""
	}
	switch of.imports[from.Name] + "." + selector.Sel.Name {
	case controllerRuntime + "/pkg/client.Client":
		return name, "mgr.GetClient()"
	case controllerRuntime + "/pkg/client.Reader":
		return name, "mgr.GetAPIReader()"
	case "k8s.io/apimachinery/pkg/runtime.Scheme":
		return name, "mgr.GetScheme()"
	case "k8s.io/client-go/tools/record.EventRecorder":
		return name, `mgr.GetEventRecorderFor("` + strings.ToLower(of.name) + `")`
	case "k8s.io/client-go/tools/events.EventRecorder", controllerRuntime + "/pkg/recorder.EventRecorder":
		return name, `mgr.GetEventRecorder("` + strings.ToLower(of.name) + `")`
	case "github.com/go-logr/logr.Logger":
		return name, "mgr.GetLogger()"
	}
	return name, ""
}
