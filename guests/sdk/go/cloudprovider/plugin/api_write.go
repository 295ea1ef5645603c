package plugin

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"

	"flyball.dev/sdk"
)

// patchTypes are the types of patches by their content types.
var patchTypes = map[string]flyball.PatchType{
	"application/json-patch+json":            flyball.JSONPatch,
	"application/merge-patch+json":           flyball.MergePatch,
	"application/strategic-merge-patch+json": flyball.StrategicPatch,
	"application/apply-patch+yaml":           flyball.ApplyPatch,
}

// write answers a request that writes.
func (of *apiRequest) write(host *flyball.Host) *http.Response {
	if of.kind == "" {
		return of.refuse("a plugin's client of the API server writes only kinds of Kubernetes, and " + of.request.URL.Path + " is none")
	}
	write := flyball.Write{Kind: of.kind, Namespace: of.namespace, Name: of.name, Subresource: of.subresource, Body: of.body}
	switch of.request.Method {
	case http.MethodPost:
		write.Verb = flyball.VerbCreate
	case http.MethodPut:
		if err := of.update(host, &write); err != nil {
			return of.respond(flyball.Result{Err: err})
		}
	case http.MethodPatch:
		content, _, _ := strings.Cut(of.request.Header.Get("Content-Type"), ";")
		write.Verb, write.PatchType = flyball.VerbPatch, patchTypes[content]
	case http.MethodDelete:
		write.Verb, write.Body = flyball.VerbDelete, nil
		if of.name == "" {
			query := of.request.URL.Query()
			write.Verb = flyball.VerbDeleteCollection
			write.LabelSelector, write.FieldSelector = query.Get("labelSelector"), query.Get("fieldSelector")
		}
		if len(of.body) > 0 {
			if err := json.Unmarshal(of.body, &write.Options); err != nil {
				return of.respond(flyball.Result{Err: fmt.Errorf("the options of a deletion are malformed: %w", err)})
			}
			delete(write.Options, "kind")
			delete(write.Options, "apiVersion")
		}
	}
	for _, name := range []string{"fieldManager", "fieldValidation"} {
		if value := of.request.URL.Query().Get(name); value != "" {
			write = write.WithOption(name, value)
		}
	}
	for _, name := range []string{"force", "dryRun"} {
		switch of.request.URL.Query().Get(name) {
		case "true":
			write = write.WithOption(name, true)
		case "All":
			write = write.WithOption(name, []string{"All"})
		}
	}
	return of.respond(host.Write(write.Returning(".")))
}

// update makes a PUT a change of the object that is there, as the host takes it. It fails with `Conflict` if the object
// has changed since the client read it.
func (of *apiRequest) update(host *flyball.Host, write *flyball.Write) error {
	var wanted, current map[string]any
	if err := json.Unmarshal(of.body, &wanted); err != nil {
		return fmt.Errorf("the object of an update is malformed: %w", err)
	}
	if err := host.Read(flyball.LiveObject(of.kind, of.namespace, of.name))[0].Into(&current); err != nil {
		return err
	}
	write.ResourceVersion = resourceVersion(wanted)
	if write.ResourceVersion == "" {
		write.ResourceVersion = resourceVersion(current)
	}
	switch of.subresource {
	case "status":
		write.Verb, write.Subresource, write.Body = flyball.VerbUpdateStatus, "", encode(wanted["status"])
	default:
		write.Verb, write.Body = flyball.VerbUpdate, encode(changes(current, wanted))
	}
	return nil
}

func resourceVersion(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	return version
}

// changes returns the JSON merge patch from one object to another.
func changes(from, to map[string]any) map[string]any {
	patch := maps.Clone(to)
	for name, old := range from {
		wanted, isThere := to[name]
		oldMap, isMap := old.(map[string]any)
		wantedMap, isWantedMap := wanted.(map[string]any)
		switch {
		case !isThere:
			patch[name] = nil
		case reflect.DeepEqual(old, wanted):
			delete(patch, name)
		case isMap && isWantedMap:
			patch[name] = changes(oldMap, wantedMap)
		}
	}
	return patch
}

// isEvent says whether the request writes an event.
func (of *apiRequest) isEvent() bool {
	isWrite := of.request.Method == http.MethodPost || of.request.Method == http.MethodPatch
	return isWrite && of.kind == "v1/Event"
}

// emit gives an event to the host, which joins equal ones itself. A recorder patches an event that it has sent before; if
// there is none, it sends the whole event again.
func (of *apiRequest) emit(host *flyball.Host) *http.Response {
	if of.request.Method == http.MethodPatch {
		return of.respond(flyball.Result{Err: &flyball.APIError{Status: http.StatusNotFound, Reason: "NotFound", Message: "the host keeps the events"}})
	}
	var event v1.Event
	if err := json.Unmarshal(of.body, &event); err != nil {
		return of.respond(flyball.Result{Err: fmt.Errorf("an event is malformed: %w", err)})
	}
	about := event.InvolvedObject
	host.Emit(flyball.Event{
		About: flyball.Reference{
			Kind: about.APIVersion + "/" + about.Kind, Namespace: about.Namespace, Name: about.Name,
			UID: string(about.UID), ResourceVersion: about.ResourceVersion,
		},
		Type: flyball.EventType(event.Type), Reason: event.Reason, Message: event.Message, Annotations: event.Annotations,
	})
	return of.response(http.StatusCreated, of.body)
}
