package flyball

import (
	"time"

	"flyball.dev/sdk/internal/clock"
)

// slept is the time by which a call's clock is ahead if the call has slept. Reading the clock moves it by a microsecond.
const slept = 20 * time.Millisecond

// hasSlept says whether a call of this instance has slept.
var hasSlept bool

// startClock makes time.Now continue from the host's time. The function that it returns is called at the end of the
// call. It says in the log if the call slept.
func startClock(host *Host) (end func()) {
	clock.Sync()
	began := time.Now()
	return func() {
		if waited := time.Since(began); waited >= slept && !hasSlept {
			hasSlept = true
			host.Log().Warn("the code slept for " + waited.Round(time.Millisecond).String() + ", and sleeping returns at once: only the " +
				"plugin's own clock moves on. Return RequeueAfter instead, and the host calls again after that time. " +
				"This is logged once in each instance")
		}
	}
}
