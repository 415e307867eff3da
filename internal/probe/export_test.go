package probe

import (
	"io"
)

// What tests name beside what everybody does.

func (x *Report) WriteJSON(w io.Writer) error { return x.writeJSON(w) }
