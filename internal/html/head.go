package html

import (
	"fmt"
	"io"
)

// MaxBytes is how much of a page ReadHead reads.
const MaxBytes = 256 << 10

// A Head is what a page says of itself.
type Head struct {
	Title   string // see Page
	NoIndex bool
}

// ReadHead reads the head of a page, which ends at <body>, or after MaxBytes.
// An error is one of reading r.
func ReadHead(r io.Reader) (Head, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes))
	if err != nil {
		return Head{}, fmt.Errorf("read head of page: %w", err)
	}
	p := Read("", b, Options{})
	return Head{p.Title, p.NoIndex}, nil
}
