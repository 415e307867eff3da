// Package goal prints the figures of a measurement beside their goals, one in a line, in the form that bench/all reads:
//
//	goal ok        1.1500  <= 1.2       one change to 10,000 listeners: CPU time / that of write(2)
package goal

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Sheet prints figures to Out, and remembers whether one missed its goal.
type Sheet struct {
	Out    io.Writer
	missed bool
}

// AtLeast prints a figure that should not be less than its goal.
func (s *Sheet) AtLeast(goal, got float64, format string, args ...any) {
	s.judge(got >= goal, ">=", goal, got, format, args...)
}

// AtMost prints a figure that should not be greater than its goal.
func (s *Sheet) AtMost(goal, got float64, format string, args ...any) {
	s.judge(got <= goal, "<=", goal, got, format, args...)
}

func (s *Sheet) judge(ok bool, sign string, goal, got float64, format string, args ...any) {
	word := "ok"
	if !ok { // also if the figure is not a number
		word = "MISSED"
		s.missed = true
	}
	fmt.Fprintf(s.Out, "goal %-6s  %8.4f  %s %-7g %s\n", word, got, sign, goal, fmt.Sprintf(format, args...))
}

// ErrMissed is the error of a measurement that went well, and missed a goal.
var ErrMissed = errors.New("a goal is missed")

// Err returns ErrMissed if a goal was missed.
func (s *Sheet) Err() error {
	if s.missed {
		return ErrMissed
	}
	return nil
}

// In reports whether a line of a measurement's output is a figure with a goal, and whether that was missed.
func In(line string) (figure, missed bool) {
	rest, figure := strings.CutPrefix(line, "goal ")
	return figure, strings.HasPrefix(rest, "MISSED")
}
