// Package types is the part of go.bytecodealliance.org/pkg/wit/types that synchronous bindings need.
package types

// Unit has no value.
type Unit struct{}

// Tuple2 is a pair of values.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// The tags of Option.
const (
	OptionNone uint8 = iota
	OptionSome
)

// Option is an optional value.
type Option[T any] struct {
	tag   uint8
	value T
}

func None[T any]() Option[T]        { return Option[T]{} }
func Some[T any](value T) Option[T] { return Option[T]{OptionSome, value} }

func (o Option[T]) Tag() uint8   { return o.tag }
func (o Option[T]) IsSome() bool { return o.tag == OptionSome }
func (o Option[T]) IsNone() bool { return o.tag == OptionNone }

// Some returns the value.
func (o Option[T]) Some() T {
	if o.tag != OptionSome {
		panic("the option has no value")
	}
	return o.value
}

// The tags of Result.
const (
	ResultOk uint8 = iota
	ResultErr
)

// Result is a value or an error.
type Result[T, E any] struct {
	tag   uint8
	value T
	err   E
}

func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{tag: ResultOk, value: value} }
func Err[T, E any](err E) Result[T, E]  { return Result[T, E]{tag: ResultErr, err: err} }

func (r Result[T, E]) Tag() uint8  { return r.tag }
func (r Result[T, E]) IsOk() bool  { return r.tag == ResultOk }
func (r Result[T, E]) IsErr() bool { return r.tag == ResultErr }
func (r Result[T, E]) Ok() T       { return r.value }
func (r Result[T, E]) Err() E      { return r.err }
