package plugin

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/sdk"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Describe declares a queue for each controller, a watch for each kind, and the permissions. It panics if the
// controllers can't be set up.
func (plugin *Plugin) Describe(host *flyball.Host) *flyball.Description {
	description, err := plugin.describe(host)
	if err != nil {
		panic(err)
	}
	return description
}

func (plugin *Plugin) describe(host *flyball.Host) (*flyball.Description, error) {
	if err := plugin.enter(host); err != nil {
		return nil, err
	}
	description := flyball.Describe(plugin.options.Name, plugin.options.Version)
	plugin.queues(description)
	watches, err := plugin.watches()
	if err != nil {
		return nil, err
	}
	for _, kind := range slices.Sorted(maps.Keys(watches)) {
		description.Watch(watches[kind])
	}
	description.Indexes = plugin.options.Indexes
	permissions, err := plugin.permissions()
	if err != nil {
		return nil, err
	}
	description.Permissions = append(permissions, plugin.options.Permissions...)
	return description, nil
}

// queues declares a queue with the name of each controller.
func (plugin *Plugin) queues(description *flyball.Description) {
	var queues []flyball.QueueSettings
	concurrency := 0
	for _, controller := range plugin.manager.controllers {
		queues = append(queues, flyball.QueueSettings{Name: controller.Name()})
		concurrency += controller.Concurrency()
	}
	if len(queues) > 0 {
		description.WithQueues(queues...).WithConcurrency(concurrency)
	}
}

// watches returns the watches by their kinds.
func (plugin *Plugin) watches() (map[string]flyball.Watch, error) {
	watches := map[string]flyball.Watch{}
	add := func(kind string) flyball.Watch {
		watch, isThere := watches[kind]
		if !isThere {
			watch = flyball.WatchKind(kind, plugin.fields(kind)...)
		}
		return watch
	}
	for _, watch := range plugin.manager.watches {
		declared := add(watch.kind)
		// All handlers that need code share one mapping.
		if mapping, isDeclared := plugin.mapping(watch); isDeclared {
			declared = declared.Enqueue(mapping.In(watch.queue))
		} else if !slices.ContainsFunc(declared.Map, func(of flyball.Mapping) bool { return of.To == "route" }) {
			declared = declared.Enqueue(flyball.ToRoute())
		}
		watches[watch.kind] = declared
	}
	for _, object := range plugin.options.Reads {
		kind, err := plugin.manager.kindOf(object)
		if err != nil {
			return nil, err
		}
		watches[kind.text] = add(kind.text)
	}
	return watches, nil
}

// fields returns the paths that are read of a kind: by default all, or the metadata if nothing reads more.
func (plugin *Plugin) fields(kind string) []string {
	if fields, isNarrowed := plugin.options.Fields[kind]; isNarrowed {
		return fields
	}
	for _, watch := range plugin.manager.watches {
		if _, isMetadata := watch.Object().(*metav1.PartialObjectMetadata); watch.kind == kind && !isMetadata {
			return []string{"."}
		}
	}
	for _, object := range plugin.options.Reads {
		of, err := plugin.manager.kindOf(object)
		if _, isMetadata := object.(*metav1.PartialObjectMetadata); err == nil && of.text == kind && !isMetadata {
			return []string{"."}
		}
	}
	return []string{"metadata"}
}

// mapping returns the host's mapping that is equivalent to the handler of a watch, if there is one.
func (plugin *Plugin) mapping(watch watch) (flyball.Mapping, bool) {
	owner, isDeclared := handler.Declared(watch.Handler())
	switch {
	case !isDeclared || watch.IsFiltered():
		return flyball.Mapping{}, false
	case owner == nil:
		return flyball.Itself(), true
	}
	// The host finds only owners that it caches, which are of a kind that another watch of the plugin has.
	for _, of := range plugin.manager.watches {
		kind, err := plugin.manager.kindOf(of.Object())
		if err != nil || kind.GroupKind() != owner.GroupKind {
			continue
		}
		if owner.IsController {
			return flyball.ToController(kind.text), true
		}
		return flyball.ToOwners(kind.text), true
	}
	return flyball.Mapping{}, false
}
