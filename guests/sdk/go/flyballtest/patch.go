package flyballtest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// merge applies a JSON merge patch (RFC 7386).
func merge(to, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	merged, isObject := to.(map[string]any)
	if !isObject {
		merged = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], change)
		}
	}
	return merged
}

// applyJSON applies a JSON patch (RFC 6902) of the operations add, remove, replace and test.
func applyJSON(to any, patch any) (any, error) {
	operations, isList := patch.([]any)
	if !isList {
		return nil, refused(400, "BadRequest", "a JSON patch is a list of operations")
	}
	for _, operation := range operations {
		fields, _ := operation.(map[string]any)
		path, _ := fields["path"].(string)
		segments := strings.Split(path, "/")[1:]
		for i, segment := range segments {
			segments[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)
		}
		changed, err := applyOne(to, segments, fields)
		if err != nil {
			return nil, refused(422, "Invalid", fmt.Sprintf("the JSON patch at %s: %v", path, err))
		}
		to = changed
	}
	return to, nil
}

func applyOne(to any, path []string, operation map[string]any) (any, error) {
	if len(path) == 0 {
		if operation["op"] == "test" {
			if !reflect.DeepEqual(to, operation["value"]) {
				return nil, fmt.Errorf("the value differs")
			}
			return to, nil
		}
		return operation["value"], nil
	}
	isLast := len(path) == 1 && operation["op"] != "test"
	switch parent := to.(type) {
	case map[string]any:
		value, found := parent[path[0]]
		switch {
		case isLast && operation["op"] == "add":
			parent[path[0]] = operation["value"]
			return parent, nil
		case !found:
			return nil, fmt.Errorf("there is no field %s", path[0])
		case isLast && operation["op"] == "remove":
			delete(parent, path[0])
			return parent, nil
		}
		changed, err := applyOne(value, path[1:], operation)
		parent[path[0]] = changed
		return parent, err
	case []any:
		if isLast && operation["op"] == "add" && path[0] == "-" {
			return append(parent, operation["value"]), nil
		}
		at, err := strconv.Atoi(path[0])
		switch {
		case err != nil || at < 0 || at > len(parent):
			return nil, fmt.Errorf("there is no element %s", path[0])
		case isLast && operation["op"] == "add":
			return slices.Insert(parent, at, operation["value"]), nil
		case at == len(parent):
			return nil, fmt.Errorf("there is no element %s", path[0])
		case isLast && operation["op"] == "remove":
			return slices.Delete(parent, at, at+1), nil
		}
		parent[at], err = applyOne(parent[at], path[1:], operation)
		return parent, err
	}
	return nil, fmt.Errorf("%s is below a value that is neither an object nor a list", path[0])
}
