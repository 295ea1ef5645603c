// Package runtime is the part of go.bytecodealliance.org/pkg/wit/runtime that synchronous bindings need.
//
// It is our own because of cabi_realloc, by which the host gets memory in the midst of a call: no import may be called
// there, and Go's collector reads the clock. So the processor is pinned, that no collection runs inside it.
package runtime

import (
	"runtime"
	"unsafe"
)

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// Allocate makes room that stays where it is until the pinner lets it go.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	pointer := allocate(size, align)
	pinner.Pin(pointer)
	return pointer
}

// Blocks that the host wrote into, kept alive until the bindings have read them. (Go's collector moves nothing.)
var kept []unsafe.Pointer

// Unpin lets go of what the host wrote. The bindings call it when they have read a call's arguments; what imports answer
// within the call is let go of by the next one.
func Unpin() {
	clear(kept)
	kept = kept[:0]
}

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	if old != nil || oldSize != 0 {
		panic("cabi_realloc: a block that grows")
	}
	procPin()
	pointer := allocate(size, align)
	if pointer != nil {
		kept = append(kept, pointer)
	}
	procUnpin()
	return pointer
}

func allocate(size, align uintptr) unsafe.Pointer {
	switch {
	case size == 0:
		return nil
	case align <= 1:
		return unsafe.Pointer(unsafe.SliceData(make([]byte, size)))
	default:
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	}
}
