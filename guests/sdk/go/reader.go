package flyball

import (
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
)

// LiveRead is a read from the API server.
type LiveRead struct {
	// Path is the path of a raw GET; empty for a read of an object or a list.
	Path string
	// IsList says whether a list is read instead of an object.
	IsList                bool
	Kind, Namespace, Name string
	// Parameters are the parameters of a list: `labelSelector`, `fieldSelector`, `limit`, `continue`,
	// `resourceVersion`, `resourceVersionMatch`.
	Parameters []ListParameter
	// Fields are the paths of each object that are returned; empty for all.
	Fields []string
}

// ListParameter is a parameter of a live list.
type ListParameter struct{ Name, Value string }

// LiveObject reads an object. Without fields, it reads all of them. Granted by the verb `get`.
func LiveObject(kind, namespace, name string, fields ...string) LiveRead {
	return LiveRead{Kind: kind, Namespace: namespace, Name: name, Fields: fields}
}

// LiveList reads the API's list object, with these fields of each item. Granted by the verb `list`.
func LiveList(kind, namespace string, fields ...string) LiveRead {
	return LiveRead{IsList: true, Kind: kind, Namespace: namespace, Fields: fields}
}

// With adds a parameter to a list.
func (read LiveRead) With(name, value string) LiveRead {
	read.Parameters = append(read.Parameters[:len(read.Parameters):len(read.Parameters)], ListParameter{name, value})
	return read
}

// LivePath reads the body of the server's answer to a GET of this path. Granted by the import `raw`.
func LivePath(path string) LiveRead { return LiveRead{Path: path} }

// Read makes live reads concurrently. It returns one result for each, in their order.
func (host *Host) Read(reads ...LiveRead) []Result { return host.world.Read(reads) }

// Into parses the JSON. It returns the error of a read or a write that failed.
func (result Result) Into(object any) error {
	if result.Err != nil {
		return result.Err
	}
	if err := json.Unmarshal(result.JSON, object); err != nil {
		return fmt.Errorf("the server's answer is malformed: %w", err)
	}
	return nil
}

// LivePages iterates over the objects of a live list, page by page. An error ends the iteration.
func LivePages[T any](host *Host, list LiveRead, pageSize int) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		token := ""
		for {
			read := list.With("limit", strconv.Itoa(pageSize))
			if token != "" {
				read = read.With("continue", token)
			}
			var page struct {
				Metadata struct {
					Continue string `json:"continue"`
				} `json:"metadata"`
				Items []T `json:"items"`
			}
			if err := host.Read(read)[0].Into(&page); err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Items {
				if !yield(&page.Items[i], nil) {
					return
				}
			}
			if token = page.Metadata.Continue; token == "" {
				return
			}
		}
	}
}
