package index

import (
	"fmt"
	"io"
)

// The rest of this file exports internals to the tests.

func (x *Index) Postings(term string) ([]Posting, error) { return x.postings(term) }

const MaxTerm = maxTerm
const MaxURL = maxURL

type Posting = posting

// Check reads a whole index, and returns an error if it is not one.
func Check(from io.Reader) error {
	r, err := newReader(from)
	for ok := true; err == nil && ok; {
		_, ok, err = r.doc()
	}
	for ok := true; err == nil && ok; {
		ok, err = r.nextTerm()
	}
	if err != nil {
		return fmt.Errorf("check index: %w", err)
	}
	return nil
}
