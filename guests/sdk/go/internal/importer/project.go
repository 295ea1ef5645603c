package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const controllerRuntime = "sigs.k8s.io/controller-runtime"

// project is a Go module with reconcilers.
type project struct {
	dir    string
	module module
	files  *token.FileSet
	// packages are by import path.
	packages map[string]*goPackage
}

// module is a go.mod, as `go mod edit -json` prints it.
type module struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

type goPackage struct {
	path, name string
	sources    []*source
}

// source is a file.
type source struct {
	path string
	text []byte
	*ast.File
}

// read parses the packages of a project. Tests, and other modules in its folder, are left out.
func read(dir string) (*project, error) {
	project := &project{dir: dir, files: token.NewFileSet(), packages: map[string]*goPackage{}}
	command := exec.Command("go", "mod", "edit", "-json")
	command.Dir, command.Stderr = dir, os.Stderr
	text, err := command.Output()
	if err == nil {
		err = json.Unmarshal(text, &project.module)
	}
	if err != nil {
		return nil, fmt.Errorf("can't read the go.mod of %s: %w", dir, err)
	}
	if project.version(controllerRuntime) == "" {
		return nil, fmt.Errorf("can't import %s: its go.mod does not require %s", dir, controllerRuntime)
	}
	return project, filepath.WalkDir(dir, project.visit)
}

// version returns the version of a module that the project requires; empty if it does not.
func (project *project) version(of string) string {
	for _, required := range project.module.Require {
		if required.Path == of {
			return required.Version
		}
	}
	return ""
}

func (project *project) visit(file string, entry fs.DirEntry, err error) error {
	name := entry.Name()
	switch {
	case err != nil:
		return err
	case entry.IsDir() && file != project.dir:
		_, err := os.Stat(filepath.Join(file, "go.mod"))
		if err == nil || name == "vendor" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
			return filepath.SkipDir
		}
	case !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
		folder := filepath.Dir(file)
		if isBuilt, err := build.Default.MatchFile(folder, name); err == nil && isBuilt {
			return project.parse(file)
		}
	}
	return nil
}

func (project *project) parse(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(project.files, file, text, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("can't parse %s: %w", file, err)
	}
	folder, err := filepath.Rel(project.dir, filepath.Dir(file))
	if err != nil {
		return err
	}
	at := path.Join(project.module.Module.Path, filepath.ToSlash(folder))
	if project.packages[at] == nil {
		project.packages[at] = &goPackage{path: at, name: parsed.Name.Name}
	}
	of := project.packages[at]
	of.sources = append(of.sources, &source{file, text, parsed})
	return nil
}

// place returns a position as `cmd/main.go:12`.
func (project *project) place(at token.Pos) string {
	position := project.files.Position(at)
	file, err := filepath.Rel(project.dir, position.Filename)
	if err != nil {
		file = position.Filename
	}
	return file + ":" + strconv.Itoa(position.Line)
}

// code returns the text of a node.
func (project *project) code(source *source, node ast.Node) string {
	return string(source.text[project.files.Position(node.Pos()).Offset:project.files.Position(node.End()).Offset])
}

// imports returns the paths that a file imports, by their names in the file.
func (project *project) imports(source *source) map[string]string {
	found := map[string]string{}
	for _, one := range source.Imports {
		at, err := strconv.Unquote(one.Path.Value)
		if err != nil {
			continue
		}
		switch {
		case one.Name != nil:
			found[one.Name.Name] = at
		case project.packages[at] != nil:
			found[project.packages[at].name] = at
		default:
			found[usualName(at)] = at
		}
	}
	return found
}

// usualName returns the name that a package of this path usually has.
func usualName(of string) string {
	name := path.Base(of)
	if number, isVersion := strings.CutPrefix(name, "v"); isVersion && len(of) > len(name) {
		if _, err := strconv.Atoi(number); err == nil && !strings.HasPrefix(of, "k8s.io/") {
			name = path.Base(path.Dir(of))
		}
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "go-"), ".go")
	return strings.ReplaceAll(name, "-", "")
}

// reachable returns the packages of the project that these import, directly or not, with themselves. They are sorted.
func (project *project) reachable(from []string) []*goPackage {
	seen, waiting := map[string]bool{}, slices.Clone(from)
	for len(waiting) > 0 {
		at := waiting[0]
		waiting = waiting[1:]
		if seen[at] || project.packages[at] == nil {
			continue
		}
		seen[at] = true
		for _, source := range project.packages[at].sources {
			for _, to := range project.imports(source) {
				waiting = append(waiting, to)
			}
		}
	}
	var found []*goPackage
	for _, at := range project.sorted() {
		if seen[at.path] {
			found = append(found, at)
		}
	}
	return found
}

// sorted returns the packages by their paths.
func (project *project) sorted() []*goPackage {
	all := make([]*goPackage, 0, len(project.packages))
	for _, one := range project.packages {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *goPackage) int { return strings.Compare(a.path, b.path) })
	return all
}

var errNothing = errors.New("no main function creates a manager (`ctrl.NewManager`), and no type has a function SetupWithManager")
