package runtime

// Handle holds a resource of the host's; 0 once it was taken.
type Handle struct{ value int32 }

// MakeHandle holds a resource.
func MakeHandle(value int32) *Handle {
	if value == 0 {
		panic("0 is no handle")
	}
	return &Handle{value}
}

// Use answers the resource.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("the resource was dropped or given away")
	}
	return h.value
}

// Take answers the resource and holds it no longer.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// TakeOrNil is Take, or 0 if there is none.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

// Set holds a resource in place of none.
func (h *Handle) Set(value int32) {
	if value == 0 || h.value != 0 {
		panic("a handle is set once")
	}
	h.value = value
}
