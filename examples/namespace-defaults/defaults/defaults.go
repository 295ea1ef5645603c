// Package defaults gives namespaces a LimitRange, a ResourceQuota and a NetworkPolicy.
//
// A namespace names a profile in the label namespace-defaults.flyball.dev/profile. A ConfigMap holds the profiles. The
// fields of a profile are applied on the server, and corrected if somebody changes them; all other fields belong to
// others.
package defaults

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"flyball.dev/sdk"
)

const (
	// name is the name of the plugin, of the objects that it applies, and of its field manager.
	name = "namespace-defaults"
	// profileLabel is the label of a namespace that names its profile.
	profileLabel = "namespace-defaults.flyball.dev/profile"
	// managedBy is the label of the objects that the plugin has created.
	managedBy = "app.kubernetes.io/managed-by"

	profilesSetting = "profiles"
	profilesDefault = "flyball-system/namespace-defaults"
)

// Namespace has the fields of a namespace that are read.
type Namespace struct {
	Meta flyball.Meta `json:"metadata"`
}

// ConfigMap holds the profiles by name, in JSON.
type ConfigMap struct {
	Data map[string]string `json:"data"`
}

// Default has the fields of a LimitRange, a ResourceQuota or a NetworkPolicy that are read.
type Default struct {
	Meta flyball.Meta   `json:"metadata"`
	Spec flyball.Object `json:"spec"`
}

var (
	namespaces = flyball.KindOf[Namespace]("v1/Namespace", "metadata.deletionTimestamp", "metadata.labels['"+profileLabel+"']")
	configMaps = flyball.KindOf[ConfigMap]("v1/ConfigMap")
	defaults   = []flyball.Kind[Default]{
		defaultOf("v1/LimitRange"),
		defaultOf("v1/ResourceQuota"),
		defaultOf("networking.k8s.io/v1/NetworkPolicy"),
	}
)

func defaultOf(kind string) flyball.Kind[Default] {
	return flyball.KindOf[Default](kind, "metadata.deletionTimestamp", "metadata.labels['"+managedBy+"']", "spec")
}

// Controller is the controller.
type Controller struct{}

// Describe declares the watches, how their changes become keys, and the permissions.
func (Controller) Describe(host *flyball.Host) *flyball.Description {
	profiles := profilesKey(host)
	description := flyball.Describe(name, "0.1.0").
		// A namespace that loses the label leaves the watch, as if it were deleted.
		Watch(namespaces.Watch().WithLabels(profileLabel).Enqueue(flyball.Itself())).
		Watch(configMaps.Watch().InNamespace(profiles.Namespace).WithFields("metadata.name="+profiles.Name).
			Enqueue(flyball.ToAllOf(namespaces.Name))).
		WithConfig(profilesSetting, profilesDefault, "Namespace and name of the ConfigMap with the profiles")
	for _, kind := range defaults {
		description.
			Watch(kind.Watch().WithFields("metadata.name="+name).WhenAt("spec").WhenLabels().Enqueue(flyball.ToNamespace())).
			Permission(kind.Name, "create", "patch", "delete")
	}
	return description
}

func profilesKey(host *flyball.Host) flyball.Key {
	text, found := host.Config(profilesSetting)
	if !found {
		text = profilesDefault
	}
	return flyball.ParseKey(text)
}

// Reconcile makes the defaults of a namespace match its profile.
func (Controller) Reconcile(host *flyball.Host, request flyball.Request) (flyball.Outcome, error) {
	namespace, err := namespaces.GetByKey(host, request.Key)
	if err != nil {
		return flyball.Done, err
	}
	if namespace == nil || namespace.Meta.Labels[profileLabel] == "" {
		return flyball.Done, write(host, nil, request.Name, Profile{})
	}
	if namespace.Meta.IsDeleting() {
		return flyball.Done, nil
	}
	profile, err := readProfile(host, namespace.Meta.Labels[profileLabel])
	if err != nil {
		// The namespace keeps its present defaults, because without them it would have no limits and no NetworkPolicy.
		warn(host, namespace, "InvalidProfile", err)
		return flyball.Done, err
	}
	return flyball.Done, write(host, namespace, request.Name, profile)
}

// readProfile returns the profile of this name. If there is none, only a change of the ConfigMap or the namespace can
// help.
func readProfile(host *flyball.Host, profile string) (Profile, error) {
	key := profilesKey(host)
	profiles, err := configMaps.GetByKey(host, key)
	if err != nil {
		return nil, err
	}
	if profiles == nil {
		return nil, flyball.Terminalf("can't read the profile %s: there is no ConfigMap %s", profile, key)
	}
	text, found := profiles.Data[profile]
	if !found {
		return nil, flyball.Terminalf("can't read the profile %s: the ConfigMap %s has no such key", profile, key)
	}
	parsed, err := ParseProfile(text)
	if err != nil {
		return nil, flyball.Terminalf("can't read the profile %s of the ConfigMap %s: %w", profile, key, err)
	}
	return parsed, nil
}

// write applies the objects that differ from the profile, and deletes the objects that the profile does not have. A
// failure doesn't prevent the other writes. The namespace is nil if it has no profile any more.
func write(host *flyball.Host, namespace *Namespace, in string, profile Profile) error {
	var writes []flyball.Write
	for _, kind := range defaults {
		found, err := kind.Get(host, in, name)
		if err != nil {
			return err
		}
		isOurs := found != nil && found.Meta.Labels[managedBy] == name
		spec, wanted := profile[kind.Name]
		switch {
		case found != nil && found.Meta.IsDeleting():
			// Its deletion enqueues the namespace.
		case found != nil && !isOurs:
			if wanted && namespace != nil {
				warn(host, namespace, "NameTaken", fmt.Errorf("%s %s exists and has no label %s=%s", short(kind.Name), name, managedBy, name))
			}
		case wanted && (found == nil || !Holds(found.Spec, spec)):
			writes = append(writes, apply(kind.Name, in, spec))
		case !wanted && isOurs:
			writes = append(writes, flyball.Delete(kind.Name, found.Meta))
		}
	}
	return report(host, namespace, writes, host.Batch(flyball.Batch{Writes: writes}))
}

// apply returns the write that creates or corrects an object. Fields of others are taken over by force.
func apply(kind, namespace string, spec flyball.Object) flyball.Write {
	version, typ := kind[:strings.LastIndexByte(kind, '/')], short(kind)
	object := flyball.Object{
		"apiVersion": version,
		"kind":       typ,
		"metadata":   flyball.Object{"name": name, "namespace": namespace, "labels": flyball.Object{managedBy: name}},
		"spec":       spec,
	}
	return flyball.Apply(kind, namespace, name, object, name, true)
}

// report emits events, and returns the failures. A retry can't help if the API server refuses a spec.
func report(host *flyball.Host, namespace *Namespace, writes []flyball.Write, results []flyball.Result) error {
	var applied []string
	var failures []error
	isTerminal := true
	for i, result := range results {
		write, err := writes[i], result.Err
		isDelete := write.Verb == flyball.VerbDelete
		switch {
		case err == nil && isDelete:
			host.Log().Info("deleted a default", "kind", write.Kind)
		case err == nil:
			applied = append(applied, short(write.Kind))
		case isDelete && (flyball.IsNotFound(err) || flyball.IsConflict(err)), flyball.IsNamespaceTerminating(err):
			// The object is deleted already, or will be.
		default:
			failures = append(failures, fmt.Errorf("can't %s the %s: %w", write.Verb, short(write.Kind), err))
			isTerminal = isTerminal && flyball.IsInvalid(err)
		}
	}
	if namespace != nil && len(applied) > 0 {
		message := strings.Join(applied, ", ")
		host.Log().Info("applied defaults", "kinds", message)
		host.Eventf(namespace.Meta.Reference(namespaces.Name), flyball.Normal, "DefaultsApplied", "applied %s", message)
	}
	err := errors.Join(failures...)
	if err != nil && isTerminal && namespace != nil {
		warn(host, namespace, "InvalidProfile", err)
		return flyball.Terminal(err)
	}
	return err
}

// warn emits an event about a namespace, which is not repeated for an hour.
func warn(host *flyball.Host, namespace *Namespace, reason string, err error) {
	host.Emit(flyball.Event{
		About: namespace.Meta.Reference(namespaces.Name), Type: flyball.Warning, Reason: reason, Message: err.Error(), Once: true,
	})
}

// short returns the kind without its group and version.
func short(kind string) string { return kind[strings.LastIndexByte(kind, '/')+1:] }

// kindOf returns the kind with this short name.
func kindOf(typ string) (string, bool) {
	at := slices.IndexFunc(defaults, func(kind flyball.Kind[Default]) bool { return short(kind.Name) == typ })
	if at < 0 {
		return "", false
	}
	return defaults[at].Name, true
}
