package flyball

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Query selects cached objects of one kind. All conditions must hold.
type Query struct {
	// Kind is as in `v1/Pod`; `*` for all kinds of the plugin's discovery watches.
	Kind string
	// Namespace is empty for all namespaces.
	Namespace  string
	Conditions []QueryCondition
}

// QueryCondition is a condition of a query. See the WIT record `condition`.
type QueryCondition struct{ Name, Value string }

// Where is a condition of a cached list.
type Where func(*Query)

func newQuery(kind string, conditions []Where) Query {
	query := Query{Kind: kind}
	for _, condition := range conditions {
		condition(&query)
	}
	return query
}

func where(name, value string) Where {
	return func(query *Query) { query.Conditions = append(query.Conditions, QueryCondition{name, value}) }
}

// InNamespace selects the objects of a namespace.
func InNamespace(namespace string) Where {
	return func(query *Query) { query.Namespace = namespace }
}

// WithLabels selects objects whose labels match a selector such as `app=web,!canary`. See [LabelSelector] for a
// selector that an object holds.
func WithLabels(selector string) Where { return where("labels", selector) }

// Indexed selects objects with this value in a declared index.
func Indexed(index, value string) Where { return where("index/"+index, value) }

// WithUID selects the object with this UID.
func WithUID(uid string) Where { return where("uid", uid) }

// OwnedBy selects objects that have an owner with this UID.
func OwnedBy(uid string) Where { return where("owner", uid) }

// ControlledBy selects objects whose controller has this UID.
func ControlledBy(uid string) Where { return where("controller", uid) }

// Orphans selects objects without a controller.
func Orphans() Where { return where("orphan", "") }

// LabelSelector is the API's label selector, as objects hold it.
type LabelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty"`
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`
}

// LabelRequirement is a requirement of a [LabelSelector].
type LabelRequirement struct {
	Key string `json:"key"`
	// Operator is `In`, `NotIn`, `Exists` or `DoesNotExist`.
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// Text returns the selector as in the API's parameter `labelSelector`, for [WithLabels]. An unknown operator is an
// error.
func (selector LabelSelector) Text() (string, error) {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		parts = append(parts, key+"="+selector.MatchLabels[key])
	}
	for _, requirement := range selector.MatchExpressions {
		values := " (" + strings.Join(requirement.Values, ",") + ")"
		switch requirement.Operator {
		case "In":
			parts = append(parts, requirement.Key+" in"+values)
		case "NotIn":
			parts = append(parts, requirement.Key+" notin"+values)
		case "Exists":
			parts = append(parts, requirement.Key)
		case "DoesNotExist":
			parts = append(parts, "!"+requirement.Key)
		default:
			return "", fmt.Errorf("%q is not an operator of a label selector", requirement.Operator)
		}
	}
	return strings.Join(parts, ","), nil
}
