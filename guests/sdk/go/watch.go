package flyball

import (
	"slices"
	"time"
)

// Watch is a kind that a plugin reads. Without a mapping, its changes enqueue nothing.
type Watch struct {
	Kind          string      `json:"kind,omitempty"`
	Discovered    *Discovered `json:"discovered,omitempty"`
	Namespace     string      `json:"namespace,omitempty"`
	LabelSelector string      `json:"labelSelector,omitempty"`
	FieldSelector string      `json:"fieldSelector,omitempty"`
	MetadataOnly  bool        `json:"metadataOnly,omitempty"`
	Fields        []string    `json:"fields"`
	Changes       []any       `json:"changes,omitempty"`
	Map           []Mapping   `json:"map,omitempty"`
}

// Discovered selects the kinds of a discovery watch.
type Discovered struct {
	// Verbs are the verbs that a kind must support, in addition to `list` and `watch`.
	Verbs    []string `json:"verbs,omitempty"`
	Except   []string `json:"except,omitempty"`
	PeriodMs uint32   `json:"periodMs"`
	// Config is a configuration key whose duration takes precedence.
	Config string `json:"config,omitempty"`
	// Errors is a counter of the plugin that counts failed discovery.
	Errors string `json:"errors,omitempty"`
}

// Watch returns a watch of the kind with its fields.
func (kind Kind[T]) Watch() Watch { return WatchKind(kind.Name, kind.Fields...) }

// WatchKind returns a watch of a kind with these fields.
func WatchKind(kind string, fields ...string) Watch {
	splitKind(kind)
	return Watch{Kind: kind, Fields: append([]string{}, fields...)}
}

// WatchDiscovered returns a watch of many kinds. It caches only metadata.
func WatchDiscovered(period time.Duration, kinds Discovered) Watch {
	kinds.PeriodMs = millis(period)
	return Watch{Discovered: &kinds, Fields: []string{}}
}

// InNamespace watches only this namespace.
func (watch Watch) InNamespace(namespace string) Watch {
	watch.Namespace = namespace
	return watch
}

// WithLabels watches only objects whose labels match.
func (watch Watch) WithLabels(selector string) Watch {
	watch.LabelSelector = selector
	return watch
}

// WithFields watches only objects whose fields match, as in `metadata.name=kube-root-ca.crt`.
func (watch Watch) WithFields(selector string) Watch {
	watch.FieldSelector = selector
	return watch
}

// OnlyMetadata caches only metadata.
func (watch Watch) OnlyMetadata() Watch {
	watch.MetadataOnly = true
	return watch
}

// Enqueue adds mappings.
func (watch Watch) Enqueue(mappings ...Mapping) Watch {
	watch.Map = append(slices.Clip(watch.Map), mappings...)
	return watch
}

// WhenGeneration maps only modifications of the generation. If a watch has several such conditions, one must hold.
func (watch Watch) WhenGeneration() Watch { return watch.when("generation") }

// WhenLabels maps only modifications of the labels.
func (watch Watch) WhenLabels() Watch { return watch.when("labels") }

// WhenAt maps only modifications at this path.
func (watch Watch) WhenAt(path string) Watch { return watch.when(Object{"path": path}) }

func (watch Watch) when(change any) Watch {
	watch.Changes = append(slices.Clip(watch.Changes), change)
	return watch
}

// Mapping selects the keys that a change of a watched object enqueues. The host applies it to the old and to the new
// version of the object. All conditions must hold.
type Mapping struct {
	To         string      `json:"to"`
	Kind       string      `json:"kind,omitempty"`
	Path       string      `json:"path,omitempty"`
	Namespaced *bool       `json:"namespaced,omitempty"`
	Key        string      `json:"key,omitempty"`
	Which      string      `json:"which,omitempty"`
	Whose      []Having    `json:"whose,omitempty"`
	IsMissing  bool        `json:"missing,omitempty"`
	Types      []DeltaType `json:"on,omitempty"`
	Queue      string      `json:"queue,omitempty"`
	DelayMs    uint32      `json:"delayMs,omitempty"`
	Orphans    bool        `json:"orphans,omitempty"`
	Deleting   bool        `json:"deleting,omitempty"`
	HavingAll  []Having    `json:"having,omitempty"`
	HavingAny  []string    `json:"havingAny,omitempty"`
	UnlessAny  []Unless    `json:"unless,omitempty"`
	WhileKinds []string    `json:"whileAny,omitempty"`
}

// Unless is a value that a field must not have: any string if Value is empty.
type Unless struct {
	Path  string `json:"path"`
	Value string `json:"value,omitempty"`
}

// Having is a value that a field must have.
type Having struct {
	Path  string `json:"path"`
	Value string `json:"value"`
}

// Itself maps to the object.
func Itself() Mapping { return Mapping{To: "itself"} }

// ToController maps to the object's controller, if it is of this kind.
func ToController(kind string) Mapping { return Mapping{To: "controller", Kind: kind} }

// ToOwners maps to the object's owners of this kind, whether they control it or not.
func ToOwners(kind string) Mapping { return Mapping{To: "owner", Kind: kind} }

// ToNamed maps to the objects whose names are at this path, in the namespace of the watched object.
func ToNamed(path string) Mapping { return named(path, true) }

// ToNamedInCluster maps to the cluster-scoped objects whose names are at this path.
func ToNamedInCluster(path string) Mapping { return named(path, false) }

func named(path string, namespaced bool) Mapping {
	return Mapping{To: "named", Path: path, Namespaced: &namespaced}
}

// ToSelecting maps to the objects of this kind, in the same namespace, whose selector at this path matches the labels
// of the watched object.
func ToSelecting(kind, path string) Mapping { return Mapping{To: "selecting", Kind: kind, Path: path} }

// ToAllInNamespace maps to all objects of this kind in the same namespace.
func ToAllInNamespace(kind string) Mapping { return Mapping{To: "inNamespace", Kind: kind} }

// ToAllOf maps to all objects of this kind.
func ToAllOf(kind string) Mapping { return Mapping{To: "all", Kind: kind} }

// ToNamespace maps to the namespace of the object.
func ToNamespace() Mapping { return Mapping{To: "namespace"} }

// ToKey maps to a constant key.
func ToKey(key Key) Mapping { return Mapping{To: "constant", Key: key.String()} }

// ToReference maps to a reference to the object, as in `apps/v1/ReplicaSet/namespace/name/uid`.
func ToReference() Mapping { return Mapping{To: "reference"} }

// ToDependents maps to references to all objects, of any watched kind, that name the object as an owner.
func ToDependents() Mapping { return Mapping{To: "dependents"} }

// ToMissingOwners maps to references to the object's owners that no cache holds.
func ToMissingOwners() Mapping { return Mapping{To: "ownerReferences", Which: "missing"} }

// ToDeletingOwners maps to references to the object's owners that are being deleted.
func ToDeletingOwners() Mapping { return Mapping{To: "ownerReferences", Which: "deleting"} }

// ToRoute maps to the keys that the controller's Route returns. See [Router].
func ToRoute() Mapping { return Mapping{To: "route"} }

// On applies only to these types of delta.
func (mapping Mapping) On(types ...DeltaType) Mapping {
	mapping.Types = types
	return mapping
}

// OnlyOrphans applies only to objects without a controller.
func (mapping Mapping) OnlyOrphans() Mapping {
	mapping.Orphans = true
	return mapping
}

// OnlyDeleting applies only to objects that are being deleted.
func (mapping Mapping) OnlyDeleting() Mapping {
	mapping.Deleting = true
	return mapping
}

// Having applies only to objects with this value at this path.
func (mapping Mapping) Having(path, value string) Mapping {
	mapping.HavingAll = append(slices.Clip(mapping.HavingAll), Having{path, value})
	return mapping
}

// HavingAnyOf applies only to objects with a string at one of these paths.
func (mapping Mapping) HavingAnyOf(paths ...string) Mapping {
	mapping.HavingAny = paths
	return mapping
}

// Unless skips deltas whose newest version has a string at this path: such objects don't need another reconcile. The
// other conditions hold for a modification if either version meets them.
func (mapping Mapping) Unless(path string) Mapping {
	mapping.UnlessAny = append(slices.Clip(mapping.UnlessAny), Unless{Path: path})
	return mapping
}

// UnlessHaving does the same as Unless if the field is, or contains, this string.
func (mapping Mapping) UnlessHaving(path, value string) Mapping {
	mapping.UnlessAny = append(slices.Clip(mapping.UnlessAny), Unless{path, value})
	return mapping
}

// WhileAnyOf applies only while the cache holds an object of one of these kinds, in the namespace of the watched object.
// The plugin must watch the kinds. Changes that are skipped don't come again, so an object of the kinds that is created
// later must enqueue the key by a mapping of its own watch.
func (mapping Mapping) WhileAnyOf(kinds ...string) Mapping {
	mapping.WhileKinds = kinds
	return mapping
}

// OfKind names the kind of the objects of [ToNamed] and [ToNamedInCluster], which the plugin must watch. WhoseFieldIs or
// Missing follows.
func (mapping Mapping) OfKind(kind string) Mapping {
	mapping.Kind = kind
	return mapping
}

// Missing restricts [ToNamed] and [ToNamedInCluster] to names that no object of the kind has in the cache. If the object
// is deleted later, a mapping of its own watch must enqueue it.
func (mapping Mapping) Missing() Mapping {
	mapping.IsMissing = true
	return mapping
}

// WhoseFieldIs restricts [ToSelecting], [ToNamed] and [ToNamedInCluster] to objects with this value at this path. If the
// field gets the value later, a mapping of the object's own watch must enqueue it.
func (mapping Mapping) WhoseFieldIs(path, value string) Mapping {
	mapping.Whose = append(slices.Clip(mapping.Whose), Having{path, value})
	return mapping
}

// In enqueues the keys in this queue.
func (mapping Mapping) In(queue string) Mapping {
	mapping.Queue = queue
	return mapping
}

// After enqueues the keys after this time.
func (mapping Mapping) After(delay time.Duration) Mapping {
	mapping.DelayMs = millis(delay)
	return mapping
}
