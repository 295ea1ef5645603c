package runtime

// Handle contains a handle of a host resource; 0 after it was taken.
type Handle struct{ value int32 }

// MakeHandle returns a Handle for a resource.
func MakeHandle(value int32) *Handle {
	if value == 0 {
		panic("0 is not a handle")
	}
	return &Handle{value}
}

// Use returns the resource.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("the resource was dropped or taken")
	}
	return h.value
}

// Take returns the resource and clears the Handle.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// TakeOrNil is like Take, but returns 0 if there is no resource.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

// Set sets the resource of an empty Handle.
func (h *Handle) Set(value int32) {
	if value == 0 || h.value != 0 {
		panic("the handle is already set, or 0")
	}
	h.value = value
}
