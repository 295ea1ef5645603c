package flyballtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flyball.dev/sdk"
	"flyball.dev/sdk/flyballtest"
)

// A recording of a call that enqueues `a/y`, and is called again after five seconds; and of a call of route.
const recording = `{"flyballRecording":1,"host":"0.2.0","world":"flyball:controller@0.2.0","plugin":"waker","version":"1","digest":"","builtIn":false,"withSecrets":false,"readsSecrets":false,"at":"","limits":{}}
{"call":{"reconcile":{"queue":"waker","key":"a/x","attempt":2}},"digest":"","kept":"asked","steps":[{"import":"queue.add","asked":{"queue":"","key":"a/y","delayMs":0},"answered":{"ok":null}}],"ended":{"requeueAfter":{"ms":5000}}}
{"call":{"route":{"deltas":[{"watch":"v1/ConfigMap","type":"added","new":{"metadata":{"namespace":"a","name":"x"}},"initial":true}]}},"digest":"","kept":"asked","steps":[],"ended":{"routed":{"keys":[{"queue":"","key":"a/x","delayMs":0}]}}}
`

// waker enqueues another key.
type waker struct{}

func (waker) Describe(*flyball.Host) *flyball.Description { return flyball.Describe("waker", "1") }

func (waker) Reconcile(host *flyball.Host, request flyball.Request) (flyball.Outcome, error) {
	if request.Attempt != 2 {
		return flyball.Done, nil
	}
	return flyball.RequeueAfter(5 * time.Second), host.Queue("").Add(flyball.Key{Namespace: request.Namespace, Name: "y"})
}

func (waker) Route(_ *flyball.Host, deltas []flyball.Delta) ([]flyball.RoutedKey, error) {
	var keys []flyball.RoutedKey
	for _, delta := range deltas {
		var object flyball.Object
		if err := delta.Decode(&object); err != nil {
			return nil, err
		}
		keys = append(keys, flyball.RoutedKey{Key: flyball.MetaOf(object).Key()})
	}
	return keys, nil
}

func TestARecordingIsRepeated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.fbrec")
	if err := os.WriteFile(file, []byte(recording), 0o600); err != nil {
		t.Fatal(err)
	}
	flyballtest.Replay(t, waker{}, file)
}

func TestARecordedFailureMustNoLongerFail(t *testing.T) {
	failed := strings.Replace(recording, `"ended":{"requeueAfter":{"ms":5000}}`, `"ended":{"failed":{"message":"no"}}`, 1)
	// A version that gets past the failure asks more than was recorded.
	past := strings.Replace(failed, `"steps":[{"import":"queue.add","asked":{"queue":"","key":"a/y","delayMs":0},"answered":{"ok":null}}]`, `"steps":[]`, 1)
	for name, calls := range map[string]string{"ends well": failed, "asks more": past} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "calls.fbrec")
			if err := os.WriteFile(file, []byte(calls), 0o600); err != nil {
				t.Fatal(err)
			}
			flyballtest.ReplayFixed(t, waker{}, file)
		})
	}
}
