//go:build ignore

// Fills in the field "stock" of the cases in this folder: what csi-translation-lib returns for them, null for an error.
//
// To run it, copy the folder into an empty Go module that requires k8s.io/csi-translation-lib, and enter `go run stock.go`.
package main

import (
	"bytes"
	"encoding/json"
	"os"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

type testCase map[string]json.RawMessage

func main() {
	translator, logger := translation.New(), klog.Background()
	fill("volumes.json", func(c testCase) (any, error) {
		var volume core.PersistentVolume
		parse(c["volume"], &volume)
		translated, err := translator.TranslateInTreePVToCSI(logger, &volume)
		if err != nil {
			return nil, err
		}
		return translated.Spec, nil
	})
	fill("inline.json", func(c testCase) (any, error) {
		var volume core.Volume
		var namespace string
		parse(c["volume"], &volume)
		parse(c["namespace"], &namespace)
		translated, err := translator.TranslateInTreeInlineVolumeToCSI(logger, &volume, namespace)
		if err != nil {
			return nil, err
		}
		return map[string]any{"name": translated.Name, "spec": translated.Spec}, nil
	})
	fill("classes.json", func(c testCase) (any, error) {
		var class storage.StorageClass
		var plugin string
		parse(c["class"], &class)
		parse(c["plugin"], &plugin)
		return translator.TranslateInTreeStorageClassToCSI(logger, plugin, &class)
	})
}

func fill(file string, stock func(testCase) (any, error)) {
	text, err := os.ReadFile(file)
	check(err)
	var cases []testCase
	parse(text, &cases)
	var filled bytes.Buffer
	for i, c := range cases {
		result, err := stock(c)
		if err != nil {
			result = nil
		}
		c["stock"] = written(result)
		filled.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		filled.Write(written(c))
	}
	filled.WriteString("\n]\n")
	check(os.WriteFile(file, filled.Bytes(), 0o644))
}

func parse(text []byte, into any) { check(json.Unmarshal(text, into)) }

func written(value any) []byte {
	text, err := json.Marshal(value)
	check(err)
	return text
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
