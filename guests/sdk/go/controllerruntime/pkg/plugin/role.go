package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"flyball.dev/sdk"
)

// verbs are the verbs that a plugin may ask for. `watch` isn't one of them, because a plugin declares its watches.
var verbs = []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"}

// role has the fields of a Role or a ClusterRole that are read.
type role struct {
	Rules []rule `json:"rules"`
}

type rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// permissions returns the permissions of the roles on kinds of the scheme. Others can't be read or written with the
// plugin's types.
func (plugin *Plugin) permissions() ([]flyball.Permission, error) {
	var permissions []flyball.Permission
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(plugin.options.Role), 4096)
	for {
		var role role
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return permissions, nil
		} else if err != nil {
			return nil, fmt.Errorf("the role is malformed: %w", err)
		}
		for _, rule := range role.Rules {
			permissions = append(permissions, plugin.permissionsOf(rule)...)
		}
	}
}

func (plugin *Plugin) permissionsOf(rule rule) (permissions []flyball.Permission) {
	wanted := slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool {
		return !slices.Contains(rule.Verbs, verb) && !slices.Contains(rule.Verbs, "*")
	})
	if len(wanted) == 0 {
		return nil
	}
	for _, group := range rule.APIGroups {
		// controller-gen writes the core group as it stands in the marker.
		if group == "core" {
			group = ""
		}
		for _, resource := range rule.Resources {
			plural, subresource, _ := strings.Cut(resource, "/")
			if kind, isKnown := plugin.kindOfResource(schema.GroupResource{Group: group, Resource: plural}); isKnown {
				permissions = append(permissions, flyball.Permission{Kind: kind, Subresource: subresource, Verbs: wanted})
			}
		}
	}
	return permissions
}

// kindOfResource returns the kind of a resource in the version that is watched, or else in the scheme's first one.
func (plugin *Plugin) kindOfResource(resource schema.GroupResource) (kind string, isKnown bool) {
	for _, version := range plugin.scheme.PrioritizedVersionsForGroup(resource.Group) {
		for name := range plugin.scheme.KnownTypes(version) {
			of := version.WithKind(name)
			if plural, _ := meta.UnsafeGuessKindToResource(of); plural.GroupResource() != resource {
				continue
			}
			text := textOf(of)
			isWatched := func(watch watch) bool { return watch.kind == text }
			if kind == "" || slices.ContainsFunc(plugin.manager.watches, isWatched) {
				kind = text
			}
		}
	}
	return kind, kind != ""
}
