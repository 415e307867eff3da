package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The bounds of a Question: its bytes in JSON, and the pages that it names.
const (
	MaxQuestion      = 8 << 20
	MaxQuestionPages = 10_000
)

// A Question is the body of a request to the batch door (C09). With Pages it requests
// the current state of these pages; without, the changes in (After, To].
type Question struct {
	After *Cursor           `json:"after,omitempty"` // nil: the parameter of the URL
	To    *Cursor           `json:"to,omitempty"`    // nil: the head
	Have  map[string]Digest `json:"have,omitempty"`  // by URL, the versions that the reader has: they are not sent
	Pages []RequestedPage   `json:"pages,omitzero"`  // empty but not nil requests no page
}

// An RequestedPage is a page, and the digest of the version that the reader has, which
// is not sent: zero if it has none.
type RequestedPage struct {
	URL  string `json:"url"`
	Hash Digest `json:"hash,omitzero"`
}

// ReadQuestion reads a Question to its end, or to the first bound exceeded. It does not
// check or normalize URLs. The error wraps ErrLimit if a bound is exceeded, and a
// *json.SyntaxError or io.ErrUnexpectedEOF if the input is no JSON; an error of r is
// wrapped as well.
func ReadQuestion(r io.Reader) (*Question, error) {
	q := &Question{}
	bounded := &io.LimitedReader{R: r, N: MaxQuestion + 1}
	d := json.NewDecoder(bounded)
	d.DisallowUnknownFields()
	err := q.read(d)
	if err == nil {
		switch _, err = d.Token(); err {
		case nil:
			err = new(json.SyntaxError) // more than one question
		case io.EOF:
			err = nil
		}
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if bounded.N == 0 {
		err = fmt.Errorf("more than %d bytes: %w", MaxQuestion, ErrLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("read question: %w", err)
	}
	return q, nil
}

func (q *Question) read(d *json.Decoder) error {
	named := 0
	one := func() error {
		if named++; named > MaxQuestionPages {
			return fmt.Errorf("more than %d pages: %w", MaxQuestionPages, ErrLimit)
		}
		return nil
	}
	return inside(d, '{', "not a JSON object", func() error {
		name, err := d.Token()
		if err != nil {
			return err
		}
		switch name {
		case "after":
			return d.Decode(&q.After)
		case "to":
			return d.Decode(&q.To)
		case "have":
			q.Have = map[string]Digest{}
			return inside(d, '{', "have is not an object", func() error {
				url, err := d.Token()
				if err != nil {
					return err
				}
				var digest Digest
				if err := d.Decode(&digest); err != nil {
					return err
				}
				q.Have[url.(string)] = digest // a key is a string
				return one()
			})
		case "pages":
			q.Pages = []RequestedPage{}
			return inside(d, '[', "pages is not a list", func() error {
				var p RequestedPage
				if err := d.Decode(&p); err != nil {
					return err
				}
				q.Pages = append(q.Pages, p)
				return one()
			})
		}
		return fmt.Errorf("unknown member %.100q", name)
	})
}

// inside reads an object or a list, and calls each to read every member.
func inside(d *json.Decoder, begin json.Delim, otherwise string, each func() error) error {
	if t, err := d.Token(); err != nil {
		return err
	} else if t != begin {
		return errors.New(otherwise)
	}
	for d.More() {
		if err := each(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}
