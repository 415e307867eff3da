package trust

import "fmt"

// The tests print verdicts and outcomes.

func (v Verdict) String() string {
	switch v {
	case Take:
		return "take"
	case Sample:
		return "sample"
	case Ignore:
		return "ignore"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

func (o Outcome) String() string {
	switch o {
	case Void:
		return "void"
	case Right:
		return "right"
	case Wrong:
		return "wrong"
	}
	return fmt.Sprintf("Outcome(%d)", int8(o))
}
