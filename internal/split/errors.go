package split

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt says that a batch is damaged: a wrong CRC, or bytes that do not parse.
	ErrCorrupt = errors.New("corrupt")
	// ErrTooLarge says that a batch is larger than MaxBatchBytes when uncompressed.
	ErrTooLarge = errors.New("too large")
	// ErrUnsupported says that a batch has a magic or a codec this version does not know.
	ErrUnsupported = errors.New("unsupported")
)

// Error is the error of Split for damaged input: which batch, and why. errors.Is finds ErrCorrupt,
// ErrTooLarge or ErrUnsupported in it.
type Error struct {
	Offset int64 // base offset of the batch, as it says itself
	Kind   error
	Cause  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("batch at offset %d: %v: %s", e.Offset, e.Kind, e.Cause)
}

func (e *Error) Unwrap() error { return e.Kind }
