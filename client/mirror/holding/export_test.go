package holding

import (
	"errors"

	"github.com/parleyweb/parley/internal/filename"
)

var (
	NaturalName = naturalName
	OtherName   = filename.Other
	AppendPage  = appendPage
	ParsePage   = parsePage
)

// CrashAfter makes the holding stop like a killed process: n file
// operations from now, in the middle of what a transaction asked for.
func (c *Holding) CrashAfter(n int) {
	c.tree.each = func() error {
		if n--; n < 0 {
			return errors.New("crashed by the test")
		}
		return nil
	}
}
