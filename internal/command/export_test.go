package command

import "io"

var (
	StateDir  = stateDir
	StateName = stateName
)

// NewProgress shows progress on any writer.
func NewProgress(w io.Writer, label string, total int64) *Progress {
	return newProgress(w, label, total)
}
