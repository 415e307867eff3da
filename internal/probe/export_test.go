package probe

import (
	"io"
)

// This file exports internals to the tests.

func (x *Report) WriteJSON(w io.Writer) error { return x.writeJSON(w) }
