package collection

import "errors"

var (
	NaturalName = naturalName
	OtherName   = otherName
	AppendPage  = appendPage
	ParsePage   = parsePage
)

// CrashAfter makes the collection stop like a killed process: n file
// operations from now, in the middle of what a transaction asked for.
func (c *Collection) CrashAfter(n int) {
	c.tree.each = func() error {
		if n--; n < 0 {
			return errors.New("crashed by the test")
		}
		return nil
	}
}
