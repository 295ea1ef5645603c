package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const marker = "+kubebuilder:rbac:"

// role returns the plugin's role: from the markers of the project or, if it has none, from config/rbac/role.yaml.
func (project *project) role(name string, report *report) string {
	rules := []string{}
	for _, of := range project.sorted() {
		for _, source := range of.sources {
			for _, comment := range source.Comments {
				for _, line := range comment.List {
					text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
					if of, isMarker := strings.CutPrefix(text, marker); isMarker {
						rule := rule(of, project.place(line.Pos()), report)
						if rule != "" && !slices.Contains(rules, rule) {
							rules = append(rules, rule)
						}
					}
				}
			}
		}
	}
	if len(rules) > 0 {
		slices.Sort(rules)
		return "# From the markers +kubebuilder:rbac of the project.\napiVersion: rbac.authorization.k8s.io/v1\n" +
			"kind: ClusterRole\nmetadata:\n  name: " + name + "\nrules:\n" + strings.Join(rules, "")
	}
	file := filepath.Join("config", "rbac", "role.yaml")
	if text, err := os.ReadFile(filepath.Join(project.dir, file)); err == nil {
		report.note("the role is %s, because the project has no markers +kubebuilder:rbac", file)
		return string(text)
	}
	report.leave("there are no markers +kubebuilder:rbac and no %s: list the plugin's permissions in main.go", file)
	return ""
}

// rule returns the rule of a marker as YAML; empty if a plugin does not need it.
func rule(of, place string, report *report) string {
	values := map[string][]string{}
	for _, part := range strings.Split(of, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		for _, one := range strings.Split(strings.Trim(value, "{}"), ";") {
			values[name] = append(values[name], strings.Trim(strings.TrimSpace(one), "\"`"))
		}
	}
	if values["urls"] != nil {
		report.leave("%s: the permission for URLs is left out: a plugin can't ask for it", place)
		return ""
	}
	for _, name := range []string{"resourceNames", "namespace"} {
		if values[name] != nil {
			report.note("%s: the role is not limited to %s %s: narrow the policy", place, name, strings.Join(values[name], ", "))
		}
	}
	groups := values["groups"]
	for at, group := range groups {
		if group == "core" {
			groups[at] = ""
		}
	}
	if groups == nil {
		groups = []string{""}
	}
	// The host records events.
	resources := slices.DeleteFunc(values["resources"], func(resource string) bool { return resource == "events" })
	if len(resources) == 0 {
		return ""
	}
	return fmt.Sprintf("- apiGroups: %s\n  resources: %s\n  verbs: %s\n", quoted(groups), quoted(resources), quoted(values["verbs"]))
}

func quoted(texts []string) string {
	all := make([]string, len(texts))
	for at, text := range texts {
		all[at] = fmt.Sprintf("%q", text)
	}
	return "[" + strings.Join(all, ", ") + "]"
}
