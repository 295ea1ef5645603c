// Package clock moves the clock of a guest, which is virtual.
package clock

import (
	"time"

	"flyball.dev/sdk/internal/bindings/flyball_controller_clock"
)

// setFileTimes moves the clock: the adapter that `flyball build` links moves it forward to a time that is set on the file
// descriptor -1, which does not exist.
//
//go:wasmimport wasi_snapshot_preview1 fd_filestat_set_times
func setFileTimes(descriptor int32, accessed, modified uint64, flags uint32) uint32

// Sync moves the clock forward to the host's time. A clock that is ahead stays.
func Sync() {
	now := flyball_controller_clock.Now()
	setFileTimes(-1, uint64(time.Unix(int64(now.Seconds), int64(now.Nanoseconds)).UnixNano()), 0, 0)
}
