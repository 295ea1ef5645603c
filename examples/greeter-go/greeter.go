// Keeps a ConfigMap in step with an annotated Namespace.
//
// A Namespace annotated `greeter.flyball.dev/greeting: TEXT` gets a ConfigMap `greeting` whose `data.greeting` is TEXT.
// Changes of either are corrected, and removing the annotation deletes the ConfigMap.
//
// bindings/ is generated from the world, except for its file guest.go:
//
//	wit-bindgen go ../../wit --world controller --pkg-name greeter/bindings --out-dir bindings
package main

import (
	_ "greeter/bindings/exports/wit_exports"
	. "greeter/flyball"
)

const (
	annotation = "greeter.flyball.dev/greeting"
	configMap  = "v1/ConfigMap"
)

type namespace struct {
	Meta Meta `json:"metadata"`
}

type greeting struct {
	Meta Meta `json:"metadata"`
	Data struct {
		Greeting string `json:"greeting"`
	} `json:"data"`
}

func init() { Export(describe, reconcile) }

func main() {}

func describe() M {
	return M{
		"format":  1,
		"name":    "greeter-go",
		"version": "0.1.0",
		"watches": []M{
			{
				"kind":   "v1/Namespace",
				"fields": []string{"metadata.annotations['" + annotation + "']", "metadata.deletionTimestamp"},
				"map":    []M{{"to": "itself"}},
			},
			{
				"kind":          configMap,
				"fieldSelector": "metadata.name=greeting",
				"fields":        []string{"data.greeting"},
				"map":           []M{{"to": "namespace"}},
			},
		},
		"queues":      []M{{"name": "greeter-go"}},
		"permissions": []M{{"kind": configMap, "verbs": []string{"get", "create", "update", "delete"}}},
	}
}

func reconcile(key Key) error {
	found, err := Get[namespace]("v1/Namespace", "", key.Name)
	if err != nil || found == nil || found.Meta.DeletionTimestamp != nil {
		return err
	}
	has, err := Get[greeting](configMap, key.Name, "greeting")
	if err != nil {
		return err
	}
	text, wanted := found.Meta.Annotations[annotation]
	switch {
	case !wanted && has != nil:
		return Delete(configMap, has.Meta)
	case wanted && has == nil:
		return Create(configMap, key.Name, M{"metadata": M{"name": "greeting"}, "data": M{"greeting": text}})
	case wanted && has.Data.Greeting != text:
		return Update(configMap, has.Meta, M{"data": M{"greeting": text}})
	}
	return nil
}
