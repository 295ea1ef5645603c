package flyball

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Meta is the metadata of an object. The name, the namespace, the UID and the resource version are always read, the
// other fields only if the watch declares them.
type Meta struct {
	Name                       string            `json:"name,omitempty"`
	GenerateName               string            `json:"generateName,omitempty"`
	Namespace                  string            `json:"namespace,omitempty"`
	UID                        string            `json:"uid,omitempty"`
	ResourceVersion            string            `json:"resourceVersion,omitempty"`
	Generation                 int64             `json:"generation,omitempty"`
	CreationTimestamp          *time.Time        `json:"creationTimestamp,omitempty"`
	DeletionTimestamp          *time.Time        `json:"deletionTimestamp,omitempty"`
	DeletionGracePeriodSeconds *int64            `json:"deletionGracePeriodSeconds,omitempty"`
	Labels                     map[string]string `json:"labels,omitempty"`
	Annotations                map[string]string `json:"annotations,omitempty"`
	OwnerReferences            []OwnerReference  `json:"ownerReferences,omitempty"`
	Finalizers                 []string          `json:"finalizers,omitempty"`
}

// OwnerReference is an owner of an object.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         *bool  `json:"controller,omitempty"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"`
}

// Reference names an object.
type Reference struct {
	// Kind is as in `v1/Pod`.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID is empty if it is not known.
	UID string `json:"uid,omitempty"`
	// ResourceVersion is the version that was read, for events.
	ResourceVersion string `json:"-"`
}

// Object is a JSON object, for kinds without a type of their own.
type Object = map[string]any

// MetaOf returns the metadata of any object with a JSON field `metadata`, such as one of a type of k8s.io/api.
func MetaOf(object any) Meta {
	var found struct {
		Meta Meta `json:"metadata"`
	}
	text := encode(object)
	if err := json.Unmarshal(text, &found); err != nil {
		panic(fmt.Sprintf("flyball: %T has no metadata: %v", object, err))
	}
	return found.Meta
}

// Key returns the object's key.
func (meta Meta) Key() Key { return Key{meta.Namespace, meta.Name} }

// IsDeleting says whether the object is being deleted.
func (meta Meta) IsDeleting() bool { return meta.DeletionTimestamp != nil }

// Reference returns a reference to the object of this kind.
func (meta Meta) Reference(kind string) Reference {
	return Reference{kind, meta.Namespace, meta.Name, meta.UID, meta.ResourceVersion}
}

// Controller returns the owner that controls the object; nil if none does.
func (meta Meta) Controller() *OwnerReference {
	for i, owner := range meta.OwnerReferences {
		if owner.Controller != nil && *owner.Controller {
			return &meta.OwnerReferences[i]
		}
	}
	return nil
}

// IsControlledBy says whether the object with this metadata controls this one.
func (meta Meta) IsControlledBy(owner Meta) bool {
	controller := meta.Controller()
	return controller != nil && controller.UID == owner.UID
}

// IsOwnedBy says whether this object names the other one as an owner.
func (meta Meta) IsOwnedBy(owner Meta) bool {
	return slices.ContainsFunc(meta.OwnerReferences, func(own OwnerReference) bool { return own.UID == owner.UID })
}

// ControllerReference returns a reference that makes the object of this kind the controller of another. Deleting it in
// the foreground waits for the other one, for which the plugin needs `update` on the kind's subresource `finalizers`.
func (meta Meta) ControllerReference(kind string) OwnerReference {
	yes := true
	owner := meta.OwnerReference(kind)
	owner.Controller, owner.BlockOwnerDeletion = &yes, &yes
	return owner
}

// OwnerReference returns a reference that makes the object of this kind an owner of another.
func (meta Meta) OwnerReference(kind string) OwnerReference {
	version, name := splitKind(kind)
	return OwnerReference{APIVersion: version, Kind: name, Name: meta.Name, UID: meta.UID}
}

// HasFinalizer says whether the object has this finalizer.
func (meta Meta) HasFinalizer(finalizer string) bool {
	return slices.Contains(meta.Finalizers, finalizer)
}

// IsHeld says whether the object is being deleted and this finalizer keeps it.
func (meta Meta) IsHeld(finalizer string) bool {
	return meta.IsDeleting() && meta.HasFinalizer(finalizer)
}

// AddFinalizer returns the update that appends a finalizer. It fails with `Conflict` if the object has changed since it
// was read.
func AddFinalizer(kind string, meta Meta, finalizer string) Write {
	return finalizers(kind, meta, append(slices.Clone(meta.Finalizers), finalizer))
}

// RemoveFinalizer returns the update that removes a finalizer and keeps others. It fails with `Conflict` if the object
// has changed since it was read.
func RemoveFinalizer(kind string, meta Meta, finalizer string) Write {
	isIt := func(own string) bool { return own == finalizer }
	return finalizers(kind, meta, slices.DeleteFunc(slices.Clone(meta.Finalizers), isIt))
}

func finalizers(kind string, meta Meta, all []string) Write {
	if all == nil {
		all = []string{}
	}
	return Update(kind, meta, Object{"metadata": Object{"finalizers": all}})
}

// splitKind splits `apps/v1/Deployment` into `apps/v1` and `Deployment`.
func splitKind(kind string) (apiVersion, name string) {
	at := strings.LastIndexByte(kind, '/')
	if at < 0 {
		panic(fmt.Sprintf("flyball: %q is not a kind: write it as in `apps/v1/Deployment` or `v1/Pod`", kind))
	}
	return kind[:at], kind[at+1:]
}

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("flyball: %T can't be written as JSON: %v", value, err))
	}
	return text
}
