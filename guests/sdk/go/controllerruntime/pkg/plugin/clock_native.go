//go:build !wasip1

package plugin

import "time"

// setClock does nothing: the machine has a clock.
func setClock(time.Time) {}
