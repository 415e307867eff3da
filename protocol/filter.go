package protocol

import (
	"net/url"
	"time"
)

// A Filter says which changes a reader wants to be told of, and which pages it
// asks for (C13). All its conditions must hold; of a list, any one. The zero
// Filter wants everything. Two Filters that say the same have equal [Filter.Query].
//
// Conditions are of two kinds. Those on the URL (Prefixes, Match, MaxDepth) say
// which part of the site is meant: what moves out of it is told as a delete,
// what moves in as a create. Those on the page (Types, Languages, MinLength ...)
// are asked of the page as it is after the change, and never hold back a
// delete: whoever was told of a page must learn that it has gone.
//
// What a page does not say of itself, such as its language, fulfils no
// condition on it, but Significance: a change of which it is not known how
// much it changed may be a great one.
type Filter struct {
	Prefixes  []string // of URLs: absolute, or of their path from "/"
	Match     []string // patterns of paths: "*" within a segment, "**" across, "?" one byte
	Types     []string // media types, "text/html", "text/*"
	Ops       []Op
	Languages []string // basic ranges of RFC 4647: "en" is also "en-GB"

	MinLength, MaxLength int64   // bytes; MaxLength of zero is no bound
	MaxDepth             int     // slashes in the path, as Depth counts; zero is no bound
	MinImportance        float64 // 0 to 1
	MinSignificance      float64 // 0 to 1; of updates, and of moves
	Since                time.Time

	// Where is an expression in CEL over the change, which the site evaluates. Match
	// and Apply do not know it.
	Where string

	// Agent is the digest of a program that was sent to the site before, which
	// decides further. Apply does not know it.
	Agent Digest
}

// FilterNames are the names of the parameters that a Filter is written in.
func FilterNames() []string {
	return []string{"prefix", "match", "type", "op", "lang", "minlen", "maxlen", "maxdepth", "minimp", "minsig", "since", "where", "agent"}
}

// IsZero reports whether the filter wants everything.
func (f *Filter) IsZero() bool { return len(f.Query()) == 0 }

// Query returns the filter as the parameters of a request: in one order, and
// without what is zero.
func (f *Filter) Query() url.Values { return url.Values{} }

// ParseFilter reads the parameters of a Filter, and leaves others alone. The error
// names the parameter by a *ParameterError.
func ParseFilter(q url.Values) (Filter, error) { return Filter{}, nil }

// A ParameterError says which parameter of a request is wrong.
type ParameterError struct {
	Name string
	Err  error
}

func (e *ParameterError) Error() string { return "parameter " + e.Name + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ParameterError) Unwrap() error { return e.Err }

// Apply returns the change as whoever asked by this filter is to be told of it,
// and false if it is not to be told.
func (f *Filter) Apply(c Change) (Change, bool) { return c, true }

// Wants reports whether an item is what the filter asks for, whatever happened to it.
func (f *Filter) Wants(i *Item) bool { return true }
