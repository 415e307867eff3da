package command

import "io"

type (
	Size     = size
	Duration = duration
)

var (
	StateDir  = stateDir
	StateName = stateName
)

// NewProgress shows progress on any writer.
func NewProgress(w io.Writer, label string, total int64) *Progress {
	return newProgress(w, label, total)
}

// Narrow returns what Table writes to, for a terminal of this width.
func Narrow(w io.Writer, width int) io.Writer { return &narrow{out: w, width: width} }
