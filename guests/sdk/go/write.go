package flyball

import "maps"

// Verb is the kind of a write.
type Verb string

const (
	VerbCreate           Verb = "create"
	VerbUpdate           Verb = "update"
	VerbUpdateStatus     Verb = "update-status"
	VerbPatch            Verb = "patch"
	VerbDelete           Verb = "delete"
	VerbDeleteCollection Verb = "delete-collection"
)

// PatchType is the type of a patch.
type PatchType string

const (
	JSONPatch      PatchType = "json"
	MergePatch     PatchType = "merge"
	StrategicPatch PatchType = "strategic"
	ApplyPatch     PatchType = "apply"
)

// Write is a write to the API server. The functions below make writes; [Host.Write] runs one, and [Host.Batch] many.
type Write struct {
	Verb                  Verb
	Kind, Namespace, Name string
	// Subresource is empty for the object itself.
	Subresource     string
	ResourceVersion string
	PatchType       PatchType
	// Body is the object, the change, the status or the patch, as JSON.
	Body []byte
	// Metadata is a merge patch of the metadata, for a status; may be empty.
	Metadata                     []byte
	LabelSelector, FieldSelector string
	// Options are the API's own: `fieldManager`, `force`, `dryRun`, `preconditions`, …
	Options Object
	// Returns are the paths of the server's answer to return; `.` for all.
	Returns []string
}

// Create creates an object. Its name is in its metadata.
func Create(kind, namespace string, object any) Write {
	return Write{Verb: VerbCreate, Kind: kind, Namespace: namespace, Body: encode(object)}
}

// Post posts an object to a subresource, such as `eviction`, `binding` or `token`.
func Post(kind, namespace, name, subresource string, object any) Write {
	return Write{Verb: VerbCreate, Kind: kind, Namespace: namespace, Name: name, Subresource: subresource, Body: encode(object)}
}

// Update updates an object by a JSON merge patch against the version that was read with this metadata. It fails with
// `Conflict` if the object has changed since.
func Update(kind string, meta Meta, change any) Write {
	return Write{Verb: VerbUpdate, Kind: kind, Namespace: meta.Namespace, Name: meta.Name, ResourceVersion: meta.ResourceVersion,
		Body: encode(change)}
}

// UpdateStatus replaces the whole status of the object that was read with this metadata. It fails with `Conflict` if
// the object has changed since.
func UpdateStatus(kind string, meta Meta, status any) Write {
	write := Update(kind, meta, status)
	write.Verb = VerbUpdateStatus
	return write
}

// Patch patches an object.
func Patch(kind, namespace, name string, patchType PatchType, patch any) Write {
	return Write{Verb: VerbPatch, Kind: kind, Namespace: namespace, Name: name, PatchType: patchType, Body: encode(patch)}
}

// Apply applies an object on the server as this field manager: the manager owns the fields that it sends, and fields
// that it no longer sends are removed. With force, it takes fields over from other managers.
func Apply(kind, namespace, name string, object any, manager string, force bool) Write {
	write := Patch(kind, namespace, name, ApplyPatch, object).WithOption("fieldManager", manager)
	if force {
		write = write.WithOption("force", true)
	}
	return write
}

// Delete deletes exactly the object that was read with this metadata, and not another object with its name.
func Delete(kind string, meta Meta) Write {
	write := Write{Verb: VerbDelete, Kind: kind, Namespace: meta.Namespace, Name: meta.Name}
	if meta.UID != "" {
		write = write.WithOption("preconditions", Object{"uid": meta.UID})
	}
	return write
}

// DeleteCollection deletes all objects in a namespace that match both selectors; an empty one matches all.
func DeleteCollection(kind, namespace, labelSelector, fieldSelector string) Write {
	return Write{Verb: VerbDeleteCollection, Kind: kind, Namespace: namespace, LabelSelector: labelSelector,
		FieldSelector: fieldSelector}
}

// On writes to a subresource, such as `scale`.
func (write Write) On(subresource string) Write {
	write.Subresource = subresource
	return write
}

// WithMetadata changes the metadata along with a status, by a JSON merge patch. The API server accepts such changes for
// some kinds.
func (write Write) WithMetadata(change any) Write {
	write.Metadata = encode(change)
	return write
}

// WithOption sets one of the API's options, such as `gracePeriodSeconds` or `propagationPolicy`.
func (write Write) WithOption(name string, value any) Write {
	write.Options = maps.Clone(write.Options)
	if write.Options == nil {
		write.Options = Object{}
	}
	write.Options[name] = value
	return write
}

// Returning asks for fields of the server's answer; `.` for all.
func (write Write) Returning(paths ...string) Write {
	write.Returns = paths
	return write
}

// Batch has writes that the host runs concurrently.
type Batch struct {
	Writes []Write
	// SlowStart is the number of writes that are run at first; it doubles after each round without an error. 0: all at
	// once.
	SlowStart int
	// StopOnError runs the writes one after another, and stops at the first failure.
	StopOnError bool
}

// Batch runs writes. It returns one result for each, in their order.
func (host *Host) Batch(batch Batch) []Result {
	if len(batch.Writes) == 0 {
		return nil
	}
	return host.world.Write(batch)
}

// Write runs one write.
func (host *Host) Write(write Write) Result { return host.Batch(Batch{Writes: []Write{write}})[0] }

// Create creates an object.
func (host *Host) Create(kind, namespace string, object any) error {
	return host.Write(Create(kind, namespace, object)).Err
}

// Update runs [Update]. The host builds the whole object from its cache if the watch of the kind declares all fields
// (`.`). Otherwise it reads the object first, which needs the verb `get`.
func (host *Host) Update(kind string, meta Meta, change any) error {
	return host.Write(Update(kind, meta, change)).Err
}

// UpdateStatus runs [UpdateStatus]. The host builds the whole object from its cache if the watch declares `metadata`.
// Otherwise it reads the object first, which needs the verb `get`.
func (host *Host) UpdateStatus(kind string, meta Meta, status any) error {
	return host.Write(UpdateStatus(kind, meta, status)).Err
}

// Patch runs [Patch].
func (host *Host) Patch(kind, namespace, name string, patchType PatchType, patch any) error {
	return host.Write(Patch(kind, namespace, name, patchType, patch)).Err
}

// Apply runs [Apply].
func (host *Host) Apply(kind, namespace, name string, object any, manager string, force bool) error {
	return host.Write(Apply(kind, namespace, name, object, manager, force)).Err
}

// Delete runs [Delete].
func (host *Host) Delete(kind string, meta Meta) error { return host.Write(Delete(kind, meta)).Err }
