package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	sdk         = "flyball.dev/sdk"
	clientGo    = "k8s.io/client-go"
	leastGo     = "1.26.0"
	sdkFolder   = "./flyball-sdk"
	adapted     = sdkFolder + "/controllerruntime"
	smallClient = adapted + "/clientgo"
)

// write writes the module and resolves its dependencies.
func (plugin *plugin) write(report *report) error {
	main, err := plugin.main()
	if err != nil {
		return err
	}
	save := func(name, text string) error {
		report.Wrote = append(report.Wrote, name)
		return os.WriteFile(filepath.Join(plugin.plugin, name), []byte(text), 0o644)
	}
	if err := errors.Join(save("main.go", main), save(".gitignore", "/build/\n*.wasm\n")); err != nil {
		return err
	}
	if plugin.role != "" {
		if err := save("role.yaml", plugin.role); err != nil {
			return err
		}
	}
	return plugin.resolve(report, save)
}

// resolve writes the go.mod. It has a smaller client-go, unless a package needs more than that has.
func (plugin *plugin) resolve(report *report, save func(name, text string) error) error {
	if err := save("go.mod", plugin.goMod(true)); err != nil {
		return err
	}
	report.Wrote = append(report.Wrote, "go.sum")
	// The checksums of the project are those of most of the plugin's modules.
	if sums, err := os.ReadFile(filepath.Join(plugin.request.project, "go.sum")); err == nil {
		if err := os.WriteFile(filepath.Join(plugin.plugin, "go.sum"), sums, 0o644); err != nil {
			return err
		}
	}
	missing, err := plugin.missing()
	if err != nil {
		return err
	}
	ofClient := func(at string) bool { return strings.HasPrefix(at, clientGo+"/") }
	if slices.ContainsFunc(missing, func(one absent) bool { return ofClient(one.path) }) {
		for _, one := range missing {
			if ofClient(one.path) {
				report.note("%s imports %s, so that the plugin uses all of client-go and is about 30 MB larger", one.by, one.path)
			}
		}
		if err := os.WriteFile(filepath.Join(plugin.plugin, "go.mod"), []byte(plugin.goMod(false)), 0o644); err != nil {
			return err
		}
		if missing, err = plugin.missing(); err != nil {
			return err
		}
	}
	for _, one := range missing {
		report.leave("%s imports %s, which a plugin does not have: %s", one.by, one.path, one.reason)
	}
	return nil
}

// absent is a package that can't be imported.
type absent struct{ path, by, reason string }

// missing adds the modules that the plugin needs to its go.mod, and returns the packages that can't be found.
func (plugin *plugin) missing() (found []absent, err error) {
	command := exec.Command("go", "list", "-mod=mod", "-e", "-deps", "-json=ImportPath,Error", ".")
	command.Dir, command.Env = plugin.plugin, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWORK=off", "GOFLAGS=")
	var errors bytes.Buffer
	command.Stderr = &errors
	output, failed := command.Output()
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var one struct {
			ImportPath string
			Error      *struct {
				ImportStack []string
				Err         string
			}
		}
		if err := decoder.Decode(&one); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("can't list the packages of the plugin: %w\n%s", err, errors.String())
		}
		if one.Error == nil {
			continue
		}
		by := "the plugin"
		if stack := one.Error.ImportStack; len(stack) > 1 {
			by = stack[len(stack)-2]
		} else if len(stack) == 1 && stack[0] != one.ImportPath {
			by = stack[0]
		}
		found = append(found, absent{one.ImportPath, by, firstLine(one.Error.Err)})
	}
	if failed != nil && len(found) == 0 {
		return nil, fmt.Errorf("can't resolve the modules of the plugin: %w\n%s", failed, errors.String())
	}
	return found, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// goMod returns the module file. Replacements of the project hold for the plugin, too.
func (plugin *plugin) goMod(isSmall bool) string {
	of := plugin.project.module
	path := of.Module.Path
	up, err := filepath.Rel(plugin.plugin, plugin.request.project)
	if err != nil {
		up = plugin.request.project
	}
	up = filepath.ToSlash(up)
	replaced := map[string]string{path: up, sdk: sdkFolder, controllerRuntime: adapted}
	if isSmall {
		replaced[clientGo] = smallClient
	}
	for _, one := range of.Replace {
		if replaced[one.Old.Path] != "" {
			continue
		}
		to := one.New.Path
		if one.New.Version != "" {
			to += " " + one.New.Version
		} else if strings.HasPrefix(to, ".") {
			to = up + "/" + to
		}
		from := one.Old.Path
		if one.Old.Version != "" {
			from += " " + one.Old.Version
		}
		replaced[from] = to
	}
	version := leastGo
	if later(of.Go, version) {
		version = of.Go
	}
	// A module below the project's may import its internal packages. The plugin's file is named after the last part.
	text := "module " + path + "/plugin/" + plugin.name + "\n\ngo " + version + "\n\nrequire (\n" +
		"\t" + path + " " + placeholderVersion(path) + "\n\t" + sdk + " v0.0.0\n\t" + controllerRuntime + " " +
		plugin.project.version(controllerRuntime) + "\n)\n\nreplace (\n"
	names := make([]string, 0, len(replaced))
	for name := range replaced {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text += "\t" + name + " => " + replaced[name] + "\n"
	}
	return text + ")\n"
}

// placeholderVersion returns a version that a module of this path may have.
func placeholderVersion(path string) string {
	if major := regexp.MustCompile(`[/.](v[0-9]+)$`).FindStringSubmatch(path); major != nil && major[1] != "v1" && major[1] != "v0" {
		return major[1] + ".0.0"
	}
	return "v0.0.0"
}

// later says whether a version of Go is later than another one.
func later(version, than string) bool {
	var a, b [3]int
	fmt.Sscanf(version, "%d.%d.%d", &a[0], &a[1], &a[2])
	fmt.Sscanf(than, "%d.%d.%d", &b[0], &b[1], &b[2])
	return slices.Compare(a[:], b[:]) > 0
}

// main returns the main package.
func (plugin *plugin) main() (string, error) {
	set := plugin.setUp
	names, taken := map[string]string{}, map[string]bool{} // by path
	for name, at := range set.imports {
		names[at], taken[name] = name, true
	}
	called := func(of, wanted string) string {
		if names[of] == "" {
			for taken[wanted] {
				wanted += "2"
			}
			names[of], taken[wanted] = wanted, true
		}
		return names[of]
	}
	name := func(of string) string { return called(of, alias(of)) }
	ctrl, exported := called(controllerRuntime, "ctrl"), called(controllerRuntime+"/pkg/plugin", "plugin")
	called("context", "context")
	options := fmt.Sprintf("\t\tName: %q, Version: \"0.1.0\",\n", plugin.name)
	if len(plugin.schemes) > 0 {
		options += "\t\tScheme: []func(*" + called("k8s.io/apimachinery/pkg/runtime", "runtime") + ".Scheme) error{\n"
		for _, one := range plugin.schemes {
			options += "\t\t\t" + name(one.path) + "." + one.name + ",\n"
		}
		options += "\t\t},\n"
	}
	options += "\t\tSetUp: setUp,\n"
	if plugin.role != "" {
		options += "\t\tRole: role,\n"
	}
	if len(plugin.clusterScoped) > 0 {
		options += "\t\tClusterScoped: []" + called(controllerRuntime+"/pkg/client", "client") + ".Object{"
		for _, one := range plugin.clusterScoped {
			options += "&" + name(one.path) + "." + one.name + "{}, "
		}
		options += "},\n"
	}
	body := ""
	if plugin.role != "" {
		body += "// role has the permissions that the plugin asks for.\n//\n//go:embed role.yaml\nvar role []byte\n\n"
	}
	body += "func init() {\n\t" + exported + ".Export(" + exported + ".Options{\n" + options + "\t})\n}\n\n" +
		"// setUp sets up the controllers as the project's main function does.\n" +
		"func setUp(" + set.manager + " " + ctrl + ".Manager) error {\n" + strings.Join(set.statements, "\n") + "\nreturn nil\n}\n\n" +
		strings.Join(set.declarations, "\n\n") + "\n\nfunc main() {}\n"
	imports := map[string]string{}
	for at, name := range names {
		imports[name] = at
	}
	text := "// Command " + plugin.name + " is a plugin with the project's controllers. `flyball import` wrote it from the project's main\n" +
		"// function.\npackage main\n\nimport (\n"
	if plugin.role != "" {
		text += "\t_ \"embed\"\n"
	}
	text += importBlock(imports, body) + ")\n\n" + body
	formatted, err := format.Source([]byte(text))
	if err != nil {
		return "", fmt.Errorf("the code that was taken from the project's main function can't be parsed: %w\n%s", err, text)
	}
	return string(formatted), nil
}

// importBlock returns the imports that a text uses: first the standard library's.
func importBlock(imports map[string]string, body string) string {
	var standard, others []string
	for name, at := range imports {
		if !uses(body, name) {
			continue
		}
		line := "\t" + name + " \"" + at + "\"\n"
		if usualName(at) == name && !strings.HasSuffix(at, "/"+name+"/") && lastPart(at) == name {
			line = "\t\"" + at + "\"\n"
		}
		if strings.Contains(strings.Split(at, "/")[0], ".") {
			others = append(others, line)
		} else {
			standard = append(standard, line)
		}
	}
	byPath := func(a, b string) int { return strings.Compare(a[strings.Index(a, `"`):], b[strings.Index(b, `"`):]) }
	slices.SortFunc(standard, byPath)
	slices.SortFunc(others, byPath)
	return strings.Join(standard, "") + "\n" + strings.Join(others, "")
}

func lastPart(of string) string { return of[strings.LastIndex(of, "/")+1:] }
