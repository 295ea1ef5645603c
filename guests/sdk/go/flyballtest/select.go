package flyballtest

import (
	"fmt"
	"slices"
	"strings"

	"flyball.dev/sdk"
)

// matches says whether an object fulfils a condition of a query.
func (cluster *Cluster) matches(kind string, object flyball.Object, condition flyball.QueryCondition) (bool, error) {
	meta := flyball.MetaOf(object)
	if index, isIndex := strings.CutPrefix(condition.Name, "index/"); isIndex {
		path, err := cluster.indexPath(kind, index)
		return slices.Contains(values(object, path), condition.Value), err
	}
	switch condition.Name {
	case "labels":
		return matchesLabels(meta.Labels, condition.Value)
	case "uid":
		return meta.UID == condition.Value, nil
	case "owner":
		return meta.IsOwnedBy(flyball.Meta{UID: condition.Value}), nil
	case "controller":
		return meta.IsControlledBy(flyball.Meta{UID: condition.Value}), nil
	case "orphan":
		return meta.Controller() == nil, nil
	}
	return false, invalid(fmt.Sprintf("a query has no condition %q", condition.Name))
}

func (cluster *Cluster) indexPath(kind, name string) (string, error) {
	if cluster.description != nil {
		for _, index := range cluster.description.Indexes {
			if index.Name == name && index.Kind == kind {
				return index.Path, nil
			}
		}
	}
	return "", invalid(fmt.Sprintf("the plugin declares no index %q of %s", name, kind))
}

// matchesLabels says whether labels match a selector such as `app=web,tier in (a,b),!canary`.
func matchesLabels(labels map[string]string, selector string) (bool, error) {
	for _, requirement := range splitOutside(selector) {
		requirement = strings.TrimSpace(requirement)
		if requirement == "" {
			continue
		}
		matches, err := matchesRequirement(labels, requirement)
		if err != nil || !matches {
			return false, err
		}
	}
	return true, nil
}

// splitOutside splits at commas outside of parentheses.
func splitOutside(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(c rune) bool {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		return c == ',' && depth == 0
	})
}

func matchesRequirement(labels map[string]string, requirement string) (bool, error) {
	if before, values, isSet := strings.Cut(requirement, "("); isSet {
		words := strings.Fields(before)
		if len(words) != 2 || !strings.HasSuffix(values, ")") {
			return false, invalid(fmt.Sprintf("%q is no label requirement", requirement))
		}
		value, found := labels[words[0]]
		isIn := false
		for _, wanted := range strings.Split(strings.TrimSuffix(values, ")"), ",") {
			isIn = isIn || found && strings.TrimSpace(wanted) == value
		}
		switch words[1] {
		case "in":
			return isIn, nil
		case "notin":
			return !isIn, nil
		}
		return false, invalid(fmt.Sprintf("%q is no label requirement", requirement))
	}
	for _, operator := range []string{"!=", "==", "="} {
		if name, wanted, isIt := strings.Cut(requirement, operator); isIt {
			value, found := labels[strings.TrimSpace(name)]
			isEqual := found && value == strings.TrimSpace(wanted)
			return isEqual != (operator == "!="), nil
		}
	}
	if name, isAbsent := strings.CutPrefix(requirement, "!"); isAbsent {
		_, found := labels[strings.TrimSpace(name)]
		return !found, nil
	}
	_, found := labels[requirement]
	return found, nil
}

// segments splits a field path such as `metadata.annotations['a.b/c']`. It ends before the elements of a list.
func segments(path string) (names []string) {
	for path != "" {
		switch {
		case strings.HasPrefix(path, "['"):
			name, rest, _ := strings.Cut(path[2:], "']")
			names, path = append(names, name), rest
		case path[0] == '[':
			return names
		default:
			path = strings.TrimPrefix(path, ".")
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			names, path = append(names, path[:end]), path[end:]
		}
	}
	return names
}

// values returns the strings at a path: of a string, or of a list of strings.
func values(object any, path string) []string {
	names := segments(path)
	for _, name := range names {
		parent, _ := object.(map[string]any)
		object = parent[name]
	}
	var found []string
	elements, isList := object.([]any)
	if !isList {
		elements = []any{object}
	}
	for _, element := range elements {
		if value, isString := element.(string); isString {
			found = append(found, value)
		}
	}
	return found
}

// prune returns an object with these fields and its identity. The elements of lists are kept whole.
func prune(object flyball.Object, fields []string) flyball.Object {
	if slices.Contains(fields, ".") {
		return object
	}
	identity := []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}
	pruned := flyball.Object{}
	for _, path := range slices.Concat(identity, fields) {
		names := segments(path)
		keep(object, pruned, names)
	}
	return pruned
}

// keep copies the value at a path.
func keep(from, to map[string]any, names []string) {
	value, found := from[names[0]]
	if !found {
		return
	}
	inner, isObject := value.(map[string]any)
	if len(names) == 1 || !isObject {
		to[names[0]] = value
		return
	}
	kept, exists := to[names[0]].(map[string]any)
	if !exists {
		kept = map[string]any{}
		to[names[0]] = kept
	}
	keep(inner, kept, names[1:])
}
