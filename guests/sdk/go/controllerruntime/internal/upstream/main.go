// Command upstream copies the unchanged parts of controller-runtime into this module, from the module cache. Run it by
// `go generate` in the module's folder; `flyball build` does. The copies are not kept in the repository.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is a published module, with the files that are copied and their destination.
type source struct {
	module, sum string
	files       []string
	// into is the folder of the copies; empty for the same folders as in the module.
	into string
	// under is the folder that has the module's folders.
	under string
	// replaced maps texts to the texts that replace them in the copies.
	replaced map[string]string
}

// sources are the modules that are copied. Parts that the host implements (clients, caches, managers, sources, queues)
// are written in this module instead, as are parts that would import a client for HTTP.
var sources = []source{
	{
		module: "sigs.k8s.io/controller-runtime@v0.25.2",
		sum:    "h1:bEkK3PVOIVK9X8QWLGVhJgmFc++47vfT6wakSzAOLsQ=",
		files: []string{
			"pkg/builder/controller.go", "pkg/builder/options.go",
			"pkg/client/applyconfigurations.go", "pkg/client/doc.go", "pkg/client/dryrun.go", "pkg/client/fieldowner.go",
			"pkg/client/fieldvalidation.go", "pkg/client/interfaces.go", "pkg/client/namespaced_client.go",
			"pkg/client/object.go", "pkg/client/options.go", "pkg/client/patch.go",
			"pkg/config/controller.go",
			"pkg/controller/controller.go", "pkg/controller/name.go", "pkg/controller/controllerutil/controllerutil.go",
			"pkg/conversion/conversion.go",
			"pkg/event/event.go",
			"pkg/finalizer/finalizer.go", "pkg/finalizer/types.go",
			"pkg/handler/enqueue.go", "pkg/handler/enqueue_mapped.go", "pkg/handler/enqueue_owner.go",
			"pkg/handler/eventhandler.go",
			"pkg/internal/log/log.go",
			"pkg/log/deleg.go", "pkg/log/log.go", "pkg/log/null.go",
			"pkg/metrics/registry.go",
			"pkg/predicate/predicate.go",
			"pkg/reconcile/reconcile.go",
			"pkg/recorder/recorder.go",
			"pkg/scheme/scheme.go",
		},
		replaced: map[string]string{
			`"k8s.io/apimachinery/pkg/util/strategicpatch"`: `"sigs.k8s.io/controller-runtime/internal/strategicpatch"`,
			// The host's queues have their own priorities. Unwrapped, the handler can become a mapping of the host.
			"return WithLowPriorityWhenUnchanged(e)\n": "return e\n",
		},
	},
	{
		module: "k8s.io/apimachinery@v0.37.2",
		sum:    "h1:G4t9RGoPDbQML38hz/kQQiltttgd3egg2ODCR8aIc2o=",
		files: []string{
			"pkg/util/strategicpatch/errors.go", "pkg/util/strategicpatch/meta.go", "pkg/util/strategicpatch/patch.go",
			"pkg/util/strategicpatch/types.go",
		},
		into: "internal/strategicpatch",
		replaced: map[string]string{
			`"k8s.io/kube-openapi/pkg/util/proto"`:      `"sigs.k8s.io/controller-runtime/internal/openapi"`,
			`"k8s.io/kube-openapi/pkg/validation/spec"`: `"sigs.k8s.io/controller-runtime/internal/openapi/spec"`,
		},
	},
	{
		module: "k8s.io/client-go@v0.37.2",
		sum:    "h1:sgFtyRZukGkOrsu+QgS7LYnbFFJ5ut3MchdBNduD//E=",
		files: []string{
			"tools/events/fake.go", "tools/internal/events/interfaces.go",
			"tools/record/fake.go", "tools/reference/ref.go", "util/retry/util.go",
			"util/workqueue/default_rate_limiters.go", "util/workqueue/delaying_queue.go", "util/workqueue/doc.go",
			"util/workqueue/metrics.go", "util/workqueue/parallelizer.go", "util/workqueue/queue.go",
			"util/workqueue/rate_limiting_queue.go",
		},
		under: "clientgo",
	},
}

func main() {
	log.SetFlags(0)
	for _, source := range sources {
		if err := source.copy(); err != nil {
			log.Fatalf("can't copy files of %s: %v", source.module, err)
		}
	}
}

func (source source) copy() error {
	folder, err := source.download()
	if err != nil {
		return err
	}
	for _, file := range source.files {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return err
		}
		for from, to := range source.replaced {
			text = bytes.ReplaceAll(text, []byte(from), []byte(to))
		}
		into := source.into
		if into == "" {
			into = filepath.Join(source.under, filepath.Dir(file))
		}
		if err := write(filepath.Join(into, "zz_upstream_"+filepath.Base(file)), text); err != nil {
			return err
		}
	}
	return nil
}

// download returns the module's folder in the module cache.
func (source source) download() (string, error) {
	output, err := exec.Command("go", "mod", "download", "-json", source.module).Output()
	var module struct{ Dir, Sum, Error string }
	if parseError := json.Unmarshal(output, &module); parseError != nil {
		return "", fmt.Errorf("`go mod download` failed: %w", errors.Join(err, parseError))
	}
	switch {
	case module.Error != "":
		return "", errors.New(strings.TrimSpace(module.Error))
	case module.Sum != source.sum:
		return "", fmt.Errorf("its checksum is %s, not %s", module.Sum, source.sum)
	}
	return module.Dir, nil
}

// write writes a file if it has another content.
func write(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
