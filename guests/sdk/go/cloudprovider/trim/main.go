// Trim makes plugins smaller: it leaves those API groups out of client-go's clientset, scheme and informers that no package of
// the plugin uses. Linked whole, they are the largest part of a plugin.
//
// `flyball build` runs it in the folder of a project. It writes a copy of client-go into a folder, and a go.mod that replaces
// the module by it, for `go build -modfile`. The project's own go.mod and the module cache stay as they are. Without client-go,
// it writes nothing.
//
// A group is used if a package outside of client-go's own generated packages imports its types, its typed client or its
// informers. A client that the code reaches by name alone is thus absent, which is an error of the compiler: then import
// the types of that group in the main package, as in `import _ "k8s.io/api/apps/v1"`.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const clientGo = "k8s.io/client-go/"

// trimmed are the files of client-go that list all groups.
var trimmed = []string{"kubernetes/clientset.go", "kubernetes/scheme/register.go", "informers/factory.go", "informers/generic.go"}

// ofGroup matches the packages of an API group in a version; informers have a package of the group besides.
var ofGroup = regexp.MustCompile(`^k8s\.io/(?:api|client-go/(?:kubernetes/typed|listers|informers|applyconfigurations))/([a-z]+)(?:/v[0-9a-z]+)?$`)

// generated are the packages that import groups because they list all of them, or belong to one.
var generated = regexp.MustCompile(`^k8s\.io/(?:api|client-go/(?:kubernetes|listers|informers|applyconfigurations))(?:/|$)`)

// goPackage is a package that the plugin is made of.
type goPackage struct {
	ImportPath, Dir string
	Imports         []string
}

func main() {
	out := flag.String("out", "", "folder for the copy of client-go, and for go.mod")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintf(os.Stderr, "can't leave out unused API groups: %v\n", err)
		os.Exit(1)
	}
}

func run(out string) error {
	packages, err := list()
	if err != nil {
		return err
	}
	module := moduleOf(packages)
	if module == "" {
		return nil
	}
	used := usedGroups(packages)
	folder := filepath.Join(out, "client-go")
	if err := copyModule(module, folder, func(path string) bool { return isUnused(path, used) }); err != nil {
		return err
	}
	return writeModFile(out, folder)
}

// moduleOf returns the folder of client-go; empty if the plugin has no package of it.
func moduleOf(packages []goPackage) string {
	for _, of := range packages {
		if name, isClientGo := strings.CutPrefix(of.ImportPath, clientGo); isClientGo {
			return strings.TrimSuffix(of.Dir, filepath.FromSlash("/"+name))
		}
	}
	return ""
}

// copyModule copies the module, without tests, and trims the files that list all groups.
func copyModule(from, to string, isRemoved func(path string) bool) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		isSource := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !isSource && name != "go.mod" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if slices.Contains(trimmed, filepath.ToSlash(name)) {
			if text, err = without(text, isRemoved); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return write(filepath.Join(to, name), text)
	})
}

// writeModFile writes go.mod and go.sum into a folder, as those of the project, with client-go replaced.
func writeModFile(out, clientGo string) error {
	output, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("can't find go.mod: %w", err)
	}
	own := strings.TrimSpace(string(output))
	changed := filepath.Join(out, "go.mod")
	for from, to := range map[string]string{own: changed, strings.TrimSuffix(own, ".mod") + ".sum": filepath.Join(out, "go.sum")} {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := write(to, text); err != nil {
			return err
		}
	}
	command := exec.Command("go", "mod", "edit", "-replace", "k8s.io/client-go="+clientGo, changed)
	command.Stderr = os.Stderr
	return command.Run()
}

// list returns all packages of the plugin in the current folder.
func list() (packages []goPackage, err error) {
	command := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Imports", ".")
	command.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(output)
	for decoder.More() {
		var one goPackage
		if err := decoder.Decode(&one); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, one)
	}
	return packages, command.Wait()
}

// usedGroups returns the groups that the plugin needs, and those whose types their clients need.
func usedGroups(packages []goPackage) map[string]bool {
	used := map[string]bool{"core": true}
	imports := map[string][]string{}
	for _, of := range packages {
		imports[of.ImportPath] = of.Imports
		if generated.MatchString(of.ImportPath) {
			continue
		}
		for _, path := range of.Imports {
			if group := groupOf(path); group != "" {
				used[group] = true
			}
		}
	}
	for isChanged := true; isChanged; {
		isChanged = false
		for path, of := range imports {
			if !strings.HasPrefix(path, clientGo+"kubernetes/typed/") || !used[groupOf(path)] {
				continue
			}
			for _, needed := range of {
				if group := groupOf(needed); group != "" && !used[group] {
					used[group], isChanged = true, true
				}
			}
		}
	}
	return used
}

// groupOf returns the group of a package; empty if it belongs to none.
func groupOf(path string) string {
	found := ofGroup.FindStringSubmatch(path)
	if found == nil || strings.HasSuffix(path, "/internal") || found[1] == "scheme" || found[1] == "internalinterfaces" || found[1] == "meta" {
		return ""
	}
	return found[1]
}

func isUnused(path string, used map[string]bool) bool {
	group := groupOf(path)
	return group != "" && !used[group]
}

// write writes a file. One that has this content already is not written again, so that nothing is compiled again.
func write(path string, content []byte) error {
	if before, err := os.ReadFile(path); err == nil && string(before) == string(content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
