package server

import (
	"context"
	"errors"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// An Announcement says of one page what the program that makes it knows: a
// content management system, a build. It is the word of the site itself, and
// it can be said again: what is known already, and what is older than what is
// known, changes nothing.
type Announcement struct {
	URL  string `json:"url"`
	Gone bool   `json:"gone,omitempty"` // it is no longer offered

	// Modified is when the page, or its going, changed. Digest is that of the
	// bytes as served. One of them must be given, but for Gone.
	Modified time.Time       `json:"modified,omitzero"`
	Digest   protocol.Digest `json:"digest,omitzero"`

	Length    *int64          `json:"length,omitempty"`
	Type      string          `json:"type,omitempty"`
	Title     string          `json:"title,omitempty"`
	Language  string          `json:"language,omitempty"`
	Canonical string          `json:"canonical,omitempty"`
	Text      protocol.Digest `json:"text,omitzero"`
}

// Announced is what came of announcements.
type Announced struct {
	Cursor    protocol.Cursor `json:"cursor"` // durable: whoever reads up to it has been told
	Created   int             `json:"created"`
	Updated   int             `json:"updated"`
	Deleted   int             `json:"deleted"`
	Unchanged int             `json:"unchanged"` // known already, or older than what is known
	Refused   []Refused       `json:"refused,omitempty"`
}

// Refused is an announcement that was not taken in.
type Refused struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// Announce takes announcements in, at most protocol.MaxBatch of them, in one
// durable transaction. What was announced stays offered until it is announced
// as gone, or forbidden by a rule, whatever the Inventory offers.
func (p *Publisher) Announce(ctx context.Context, list []Announcement) (Announced, error) {
	return Announced{}, errors.New("not built yet")
}
