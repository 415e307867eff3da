package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// An Announcement is a report about one page by the program that generates it: a
// content management system, a build. It is the site's own word, and can be
// repeated: news that is known, or older than what is known, changes nothing.
type Announcement struct {
	URL  string `json:"url"`            // absolute, or relative to the base URL
	Gone bool   `json:"gone,omitempty"` // the page is no longer offered

	// Modified is when the page changed, or was deleted. Digest is that of the
	// bytes as served. One of them must be given, unless Gone is set.
	//
	// Without a digest only the date, to the millisecond, decides what is new.
	// Of two edits with the same date the second counts as a repeat of the first,
	// and as Unchanged; a deletion with the date of an edit counts as the later one.
	// So a program whose dates are whole seconds should give a digest, or
	// milliseconds, or announce the changes of a second only when it is over.
	//
	// For a deleted page only a later date is new: a page that comes back must
	// give the date when it did, not when it was written, or a digest and no date.
	// A deletion without a date counts as of its acceptance, or as of the newest known
	// date of the page if that is later: news in a later call with a date up to then
	// is old, even of edits after the deletion. So a program that may be late should
	// date its deletions.
	Modified time.Time `json:"modified,omitzero"`
	Digest   Digest    `json:"digest,omitzero"`

	Length    *int64 `json:"length,omitempty"` // bytes
	Type      string `json:"type,omitempty"`   // media type
	Title     string `json:"title,omitempty"`
	Language  string `json:"language,omitempty"`
	Canonical string `json:"canonical,omitempty"`
	Text      Digest `json:"text,omitzero"`
}

// Announced is the answer to announcements.
type Announced struct {
	Cursor    Cursor    `json:"cursor"` // durable: every reader that reaches it has received the changes
	Created   int       `json:"created"`
	Updated   int       `json:"updated"`
	Deleted   int       `json:"deleted"`
	Unchanged int       `json:"unchanged"` // known already, or older than what is known
	Refused   []Refused `json:"refused,omitempty"`
}

// Refused is an announcement that was not accepted. Repeated, it will be
// refused again, unless the rules of the site change.
type Refused struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// ParseAnnouncements parses announcements: a JSON object with the member pages, a list,
// or a single announcement; or, with lines, one on each line. Unknown members are ignored. It
// does not check URLs, but that they are given. The error wraps ErrLimit if there are more than
// MaxBatch, and is a *ParameterError, of pages[N], if one cannot be read; else it is about the JSON.
func ParseAnnouncements(body []byte, lines bool) ([]Announcement, error) {
	pages, err := splitAnnouncements(body, lines)
	if err != nil {
		return nil, err
	}
	list := make([]Announcement, len(pages))
	for i, page := range pages {
		if page = bytes.TrimSpace(page); len(page) == 0 || page[0] != '{' {
			return nil, badAnnouncement(i, errors.New("not a JSON object"))
		}
		if err := json.Unmarshal(page, &list[i]); err != nil {
			return nil, badAnnouncement(i, err)
		}
		if list[i].URL == "" {
			return nil, badAnnouncement(i, errors.New("url is missing"))
		}
	}
	return list, nil
}

// splitAnnouncements returns the JSON of each announcement, without decoding it.
func splitAnnouncements(body []byte, lines bool) (pages []json.RawMessage, err error) {
	tooMany := fmt.Errorf("more than %d pages: %w", MaxBatch, ErrLimit)
	if lines {
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				pages = append(pages, line)
			}
			if len(pages) > MaxBatch {
				return nil, tooMany
			}
		}
		return pages, nil
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	whole = bytes.TrimSpace(whole)
	if whole[0] == '{' {
		var o struct{ Pages json.RawMessage }
		if err := json.Unmarshal(whole, &o); err != nil || len(o.Pages) == 0 || o.Pages[0] != '[' {
			return []json.RawMessage{whole}, nil
		}
		whole = o.Pages
	}
	if whole[0] != '[' {
		return []json.RawMessage{whole}, nil
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	d.Token() // the bracket
	for d.More() {
		if len(pages) == MaxBatch {
			return nil, tooMany
		}
		var page json.RawMessage
		if err := d.Decode(&page); err != nil {
			return nil, badAnnouncement(len(pages), err)
		}
		pages = append(pages, page)
	}
	return pages, nil
}

func badAnnouncement(i int, err error) error {
	return &ParameterError{fmt.Sprintf("pages[%d]", i), fmt.Errorf("page %d cannot be read: %w", i, err)}
}
