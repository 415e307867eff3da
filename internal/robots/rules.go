package robots

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Rules are a site's rules while its robots.txt changes: the accepted text, and the candidate, which is the
// text read last if it differs. While there are two, a URL is allowed only if both allow it. So a stricter
// rule counts at once and a looser one waits: a file that is being written uncovers nothing. A lost file is
// ignored.
//
// A Rules is immutable; read returns its successor. A nil Rules means that nobody has read the site's
// robots.txt yet.
type Rules struct {
	accepted  version
	candidate *version  // nil: there is none
	since     time.Time // when the candidate was first read
	lost      *version  // the text read last has no rule and is ignored; nil: it has
	said      time.Time // when a person was last told of a problem; zero if never
}

// A version is one text of a robots.txt, parsed.
type version struct {
	text []byte // nil: there was none
	file *File
}

func newVersion(text []byte) version { return version{text, Parse(text)} }

func (v version) has(text []byte) bool {
	return (v.text == nil) == (text == nil) && bytes.Equal(v.text, text)
}

// read returns the rules after robots.txt was read again, r itself if nothing has changed. Text is nil if
// there is none, and is retained. A candidate is accepted when it is read again, its rules unchanged, at
// least wait after it was first read; at once if wait is zero or less, or if the accepted text forbids
// nothing. A text without any rule is lost if something is forbidden: it is neither accepted nor a candidate.
func (r *Rules) read(text []byte, now time.Time, wait time.Duration) *Rules {
	if r == nil {
		return &Rules{accepted: newVersion(text)}
	}
	if r.isLast(text) && (r.candidate == nil || r.lost != nil) {
		return r
	}
	next := *r
	next.lost = nil
	switch v := newVersion(text); {
	case !v.file.ruled && r.forbids():
		next.lost = &v
	case v.file.same(r.accepted.file): // a Sitemap line is no rule
		next.accepted, next.candidate = v, nil
	case wait <= 0, !r.accepted.file.forbids:
		next.accepted, next.candidate = v, nil
	case r.candidate == nil, !v.file.same(r.candidate.file), r.lost != nil, now.Before(r.since): // or the clock was put back
		next.candidate, next.since = &v, now
	case now.Sub(r.since) < wait:
		if r.candidate.has(text) {
			return r
		}
		next.candidate = &v
	default:
		next.accepted, next.candidate = v, nil
	}
	return &next
}

// same reports whether two files have the same rules for everybody.
func (f *File) same(g *File) bool { return f.deny == g.deny && reflect.DeepEqual(f.agents, g.agents) }

// forbids reports whether anything is forbidden to anybody.
func (r *Rules) forbids() bool {
	return r.accepted.file.forbids || r.candidate != nil && r.candidate.file.forbids
}

// Lost reports whether the text read last has no rule at all, because it is missing, empty, or not a
// robots.txt, although something was forbidden.
func (r *Rules) Lost() bool { return r != nil && r.lost != nil }

// waits returns since when a candidate waits to be accepted; false if there is none.
func (r *Rules) waits() (since time.Time, ok bool) {
	if r == nil || r.candidate == nil || r.lost != nil {
		return time.Time{}, false
	}
	return r.since, true
}

// missing reports whether there was no robots.txt when it was read last.
func (r *Rules) missing() bool { return r != nil && r.last().text == nil }

// isLast reports whether text is the text read last.
func (r *Rules) isLast(text []byte) bool { return r != nil && r.last().has(text) }

func (r *Rules) last() version {
	switch {
	case r.lost != nil:
		return *r.lost
	case r.candidate != nil:
		return *r.candidate
	}
	return r.accepted
}

// saidAt returns the rules with the time at which a person was told of a problem.
func (r *Rules) saidAt(now time.Time) *Rules {
	next := *r
	next.said = now
	return &next
}

// Allowed is [File.Allowed] for both the accepted text and the candidate: both must allow it, each by its own
// group for the agent.
func (r *Rules) Allowed(agent, path string, others ...string) bool {
	return r.accepted.file.Allowed(agent, path, others...) &&
		(r.candidate == nil || r.candidate.file.Allowed(agent, path, others...))
}

// AllowsBelow reports whether "*" may fetch every path that begins with dir, which begins and ends in "/". It does not
// try wildcards: false means that some path may be forbidden.
func (r *Rules) AllowsBelow(dir string) bool {
	return r.accepted.file.allowsBelow(dir) && (r.candidate == nil || r.candidate.file.allowsBelow(dir))
}

func (f *File) allowsBelow(dir string) bool {
	for _, m := range f.members("*") {
		for _, r := range m.group.rules {
			// If dir is not in canonical form, its files may be matched in another spelling of dir.
			if !r.allow && (strings.HasPrefix(r.prefix, dir) || strings.HasPrefix(dir, r.prefix) || canonical(dir, false) != dir) {
				return false
			}
		}
	}
	return !f.deny
}

// stored is the encoding of Rules. A null text means that there was no file.
type stored struct {
	Accepted  []byte     `json:"accepted"`
	Candidate *[]byte    `json:"candidate,omitempty"`
	Since     *time.Time `json:"since,omitempty"` // with a candidate
	Lost      bool       `json:"lost,omitempty"`  // the text read last had no rule
	Said      *time.Time `json:"said,omitempty"`
}

// encode returns the rules as parseRules reads them: at most 4/3 of both texts and 300 bytes. Of a lost
// text it stores only that it is lost.
func (r *Rules) encode() []byte {
	s := stored{Accepted: r.accepted.text, Lost: r.lost != nil}
	if r.candidate != nil {
		s.Candidate, s.Since = &r.candidate.text, &r.since
	}
	if !r.said.IsZero() {
		s.Said = &r.said
	}
	b, err := json.Marshal(s)
	if err != nil { // a year that RFC 3339 cannot write: the clock is badly wrong
		s.Since, s.Said = nil, nil
		b, _ = json.Marshal(s)
	}
	return b
}

// parseRules parses the output of encode.
func parseRules(b []byte) (*Rules, error) {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("parse rules: %w", err)
	}
	if len(s.Accepted) > MaxBytes+1 || s.Candidate != nil && len(*s.Candidate) > MaxBytes+1 {
		return nil, errors.New("parse rules: text too long")
	}
	r := &Rules{accepted: newVersion(s.Accepted)}
	if s.Candidate != nil {
		v := newVersion(*s.Candidate)
		if r.candidate = &v; s.Since != nil {
			r.since = *s.Since
		}
	}
	if s.Lost {
		r.lost = &version{}
	}
	if s.Said != nil {
		r.said = *s.Said
	}
	return r, nil
}
