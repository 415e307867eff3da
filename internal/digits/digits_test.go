package digits_test

import (
	"testing"

	"github.com/parleyweb/parley/internal/digits"
)

func TestGroup(t *testing.T) {
	for number, want := range map[string]string{"": "", "7": "7", "999": "999", "-999": "-999", "1000": "1,000", "-1000": "-1,000", "1234567": "1,234,567", "-12345678": "-12,345,678"} {
		if got := digits.Group(number, ","); got != want {
			t.Errorf("%s: %s, want %s", number, got, want)
		}
	}
}
