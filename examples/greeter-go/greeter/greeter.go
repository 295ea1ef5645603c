// ANCHOR: kinds

// Package greeter keeps a ConfigMap with the text of each Greeting.
//
// It shows the parts that most controllers have: a custom resource with a status, an object that it owns, a finalizer,
// conditions, and an event.
package greeter

import (
	"fmt"
	"slices"

	"flyball.dev/sdk"
)

const (
	name      = "greeter-go"
	finalizer = "greeter.flyball.dev/cleanup"
)

// Greeting asks for a ConfigMap with a text.
type Greeting struct {
	Meta   flyball.Meta   `json:"metadata"`
	Spec   GreetingSpec   `json:"spec"`
	Status GreetingStatus `json:"status"`
}

// GreetingSpec is the state that the user wants.
type GreetingSpec struct {
	Text string `json:"text"`
}

// GreetingStatus is the state that the controller has observed.
type GreetingStatus struct {
	ObservedGeneration int64               `json:"observedGeneration,omitempty"`
	Conditions         []flyball.Condition `json:"conditions,omitempty"`
}

// ConfigMap has the fields of a ConfigMap that the controller reads.
type ConfigMap struct {
	Meta flyball.Meta `json:"metadata"`
	Data struct {
		Text string `json:"text"`
	} `json:"data"`
}

var (
	greetings  = flyball.KindOf[Greeting]("greeter.flyball.dev/v1/Greeting")
	configMaps = flyball.KindOf[ConfigMap]("v1/ConfigMap")
)

// ANCHOR_END: kinds

// ANCHOR: describe

// Greeter is the controller.
type Greeter struct{}

// Describe declares the watches, how their changes become keys, and the permissions.
func (Greeter) Describe(*flyball.Host) *flyball.Description {
	return flyball.Describe(name, "0.1.0").
		Watch(greetings.Watch().Enqueue(flyball.Itself())).
		Watch(configMaps.Watch().Enqueue(flyball.ToController(greetings.Name))).
		Permission(greetings.Name, "get", "update").
		PermissionOn(greetings.Name, "status", "update").
		PermissionOn(greetings.Name, "finalizers", "update").
		Permission(configMaps.Name, "get", "create", "update", "delete")
}

// ANCHOR_END: describe

// ANCHOR: reconcile

// Reconcile brings the ConfigMap and the status of a Greeting to their desired state.
func (Greeter) Reconcile(host *flyball.Host, request flyball.Request) (flyball.Outcome, error) {
	greeting, err := greetings.GetByKey(host, request.Key)
	if err != nil || greeting == nil {
		return flyball.Done, err
	}
	configMap, err := configMaps.GetByKey(host, request.Key)
	if err != nil {
		return flyball.Done, err
	}
	if greeting.Meta.IsDeleting() {
		return flyball.Done, cleanUp(host, greeting, configMap)
	}
	if !greeting.Meta.HasFinalizer(finalizer) {
		// The update enqueues the key again.
		return flyball.Done, host.Write(flyball.AddFinalizer(greetings.Name, greeting.Meta, finalizer)).Err
	}
	if configMap != nil && !configMap.Meta.IsControlledBy(greeting.Meta) {
		return flyball.Done, refuse(host, greeting)
	}
	if err := writeConfigMap(host, greeting, configMap); err != nil {
		return flyball.Done, err
	}
	_, err = report(host, greeting, flyball.Condition{Status: "True", Reason: "Greeted"})
	return flyball.Done, err
}

// ANCHOR_END: reconcile

// ANCHOR: steps

// cleanUp deletes the ConfigMap of a Greeting that is being deleted, and then lets the Greeting go.
func cleanUp(host *flyball.Host, greeting *Greeting, configMap *ConfigMap) error {
	if !greeting.Meta.HasFinalizer(finalizer) {
		return nil
	}
	if configMap != nil && configMap.Meta.IsControlledBy(greeting.Meta) {
		err := host.Delete(configMaps.Name, configMap.Meta)
		if err != nil && !flyball.IsNotFound(err) && !flyball.IsConflict(err) {
			return fmt.Errorf("can't delete the ConfigMap: %w", err)
		}
	}
	return host.Write(flyball.RemoveFinalizer(greetings.Name, greeting.Meta, finalizer)).Err
}

// writeConfigMap creates or corrects the ConfigMap. It emits an event if it wrote it.
func writeConfigMap(host *flyball.Host, greeting *Greeting, configMap *ConfigMap) error {
	data := flyball.Object{"text": greeting.Spec.Text}
	var err error
	switch {
	case configMap == nil:
		err = host.Create(configMaps.Name, greeting.Meta.Namespace, flyball.Object{
			"metadata": flyball.Object{
				"name":            greeting.Meta.Name,
				"ownerReferences": []flyball.OwnerReference{greeting.Meta.ControllerReference(greetings.Name)},
			},
			"data": data,
		})
	case configMap.Data.Text != greeting.Spec.Text:
		err = host.Update(configMaps.Name, configMap.Meta, flyball.Object{"data": data})
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("can't write the ConfigMap: %w", err)
	}
	host.Log().Info("wrote the ConfigMap", "name", greeting.Meta.Name)
	host.Eventf(greeting.Meta.Reference(greetings.Name), flyball.Normal, "Greeted", "wrote ConfigMap %s", greeting.Meta.Name)
	return nil
}

// refuse reports that the ConfigMap's name is taken, with one event.
func refuse(host *flyball.Host, greeting *Greeting) error {
	message := fmt.Sprintf("ConfigMap %s exists and this Greeting does not control it", greeting.Meta.Name)
	changed, err := report(host, greeting, flyball.Condition{Status: "False", Reason: "NameTaken", Message: message})
	if err == nil && changed {
		host.Eventf(greeting.Meta.Reference(greetings.Name), flyball.Warning, "NameTaken", "%s", message)
	}
	return err
}

// ANCHOR_END: steps

// ANCHOR: report

// report writes the condition Ready and the observed generation. It returns whether they differ from the written ones.
func report(host *flyball.Host, greeting *Greeting, ready flyball.Condition) (changed bool, err error) {
	ready.Type, ready.ObservedGeneration = "Ready", greeting.Meta.Generation
	status := GreetingStatus{greeting.Meta.Generation, slices.Clone(greeting.Status.Conditions)}
	changed = flyball.SetCondition(&status.Conditions, ready, host.Now())
	if !changed && greeting.Status.ObservedGeneration == status.ObservedGeneration {
		return false, nil
	}
	return changed, host.UpdateStatus(greetings.Name, greeting.Meta, status)
}

// ANCHOR_END: report
