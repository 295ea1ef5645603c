// Package runtime is the part of go.bytecodealliance.org/pkg/wit/runtime that synchronous bindings need.
//
// It replaces the original because of cabi_realloc, through which the host allocates memory during a call. No import
// may be called there, but Go's garbage collector reads the clock. So the processor is pinned, which prevents a
// collection inside it.
package runtime

import (
	"runtime"
	"unsafe"
)

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// Allocate allocates memory that is pinned until the pinner is unpinned.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	pointer := allocate(size, align)
	pinner.Pin(pointer)
	return pointer
}

// Blocks that the host wrote into, kept alive until the bindings have read them. (Go's collector does not move
// objects.)
var kept []unsafe.Pointer

// Unpin releases the blocks that the host wrote. The bindings call it after reading a call's arguments; the results of
// imports within the call are released by the next one.
func Unpin() {
	clear(kept)
	kept = kept[:0]
}

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	if old != nil || oldSize != 0 {
		panic("cabi_realloc: growing a block is not supported")
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
