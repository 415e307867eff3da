package static

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// Robots maintains the part of a robots.txt that leads crawlers to the lists of pages: "Sitemap:" and
// "Manifest:" lines. It checks them, proposes them, and merges them into the existing file.
//
// The merged lines are in a block between two comments, at the end of the file, and every other byte stays as
// it is; see merge. Such lines belong to no group, so that no rule changes its meaning. A new file
// has the block and nothing else: no group, which allows everything, as a missing file does.
//
// Its methods are not safe for concurrent use.
type Robots struct {
	// Path is the file, DOCROOT/robots.txt. A symbolic link is followed to a file in or below the same
	// directory; one that leads elsewhere is an error.
	Path string

	Base     string   // of the site
	Sitemaps []string // absolute URLs of sitemaps
	Manifest string   // the absolute URL of robots.rdf; empty means none
}

var _ server.Output = (*Robots)(nil)

const (
	blockBegin = "# Parley: begin"
	blockEnd   = "# Parley: end"
)

// Why nothing is merged into a robots.txt.
var (
	errRobotsHTML   = errors.New("it is HTML, not a robots.txt: crawlers find no rule in it; replace it, or remove it and a new one is created")
	errRobotsBinary = errors.New("it is not plain text: crawlers cannot read it; save it as UTF-8")
	errRobotsLong   = fmt.Errorf("it is longer than %d KiB, and crawlers read no further: make it shorter", robots.MaxBytes>>10)
)

// String names the output.
func (r *Robots) String() string { return "robots.txt" }

// Own returns nothing: a robots.txt is never published as a page.
func (r *Robots) Own() []string { return nil }

// Write implements [server.Output]: it merges the lines into the file, or creates it. It does not use the
// journal, which may be nil.
func (r *Robots) Write(ctx context.Context, _ *server.Journal) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	failed := func(err error) (bool, error) { return false, fmt.Errorf("merge into %s: %w", r.Path, err) }
	path, err := r.target()
	if err != nil {
		return failed(err)
	}
	u, err := begin(path)
	if err != nil {
		return failed(err)
	}
	defer u.drop()
	old, err := r.old(u)
	if err != nil {
		return failed(err)
	}
	text, err := r.merge(old)
	if err != nil {
		return failed(err)
	}
	if u.old == nil && len(text) == 0 {
		return false, nil
	}
	if _, err := u.Write(text); err != nil {
		return false, err
	}
	return u.commit()
}

// target returns the file to write: Path, or its symbolic link's target.
func (r *Robots) target() (string, error) {
	info, err := os.Lstat(r.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return r.Path, nil
	} else if err != nil {
		return "", err
	}
	to, err := filepath.EvalSymlinks(r.Path)
	if err != nil {
		return "", err
	}
	if !within(filepath.Dir(r.Path), to) {
		return "", fmt.Errorf("it is a symbolic link to %s, which is outside the docroot and may be shared with other sites: add the lines there by hand", to)
	}
	return to, nil
}

// old reads the file that an update replaces.
func (r *Robots) old(u *update) ([]byte, error) {
	if u.old == nil {
		return nil, nil
	}
	return io.ReadAll(io.NewSectionReader(u.old, 0, robots.MaxBytes+1))
}

// missing returns the lines that text lacks.
func (r *Robots) missing(text []byte) (lines []string) {
	file := robots.Parse(text)
	add := func(name, u string) {
		if line := name + ": " + u; u != "" && !slices.Contains(file.Lines(name), u) && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, u := range r.Sitemaps {
		add("Sitemap", u)
	}
	add("Manifest", r.Manifest)
	return lines
}

// merge returns the text of a robots.txt with the lines that it lacks, in a
// block at its end:
//
//	# Parley: begin
//	Sitemap: https://www.example.org/sitemap.xml
//	# Parley: end
//
// An existing block is replaced in place. A line that exists outside of it is not repeated, and when no line
// is left the block is removed, which restores the bytes from before it was added. Line ends are those of the
// first line. The text may be nil. A text that is HTML, binary, longer than crawlers read, or has half a
// block is an error, and so is a block with anything but Sitemap and Manifest lines and comments: a rule that
// somebody wrote there would be lost, and pages that it forbids published.
func (r *Robots) merge(text []byte) ([]byte, error) {
	for _, u := range append(slices.Clone(r.Sitemaps), r.Manifest) {
		if s, err := protocol.CanonicalURL("", u); u != "" && (err != nil || s != u) {
			return nil, fmt.Errorf("%.200q is not an absolute URL in canonical form", u)
		}
	}
	if err := readable(text); err != nil {
		return nil, err
	}
	before, after, found, err := cutBlock(text)
	if err != nil {
		return nil, err
	}
	if !found {
		before = text
	}
	rest := append(slices.Clone(before), after...)
	end := lineEnd(rest)
	if n := len(before); n > 0 && len(after) > 0 && !isLineEnd(before[n-1]) && !isLineEnd(after[0]) {
		rest = slices.Insert(rest, n, []byte(end)...) // the block separated these lines
	}
	lines := r.missing(rest)
	if len(lines) == 0 {
		return rest, nil
	}
	merged := slices.Clone(before)
	if len(before) > 0 {
		merged = append(merged, end...) // ends the last line, or is a blank line
	}
	for _, l := range append(append([]string{blockBegin}, lines...), blockEnd) {
		merged = append(append(merged, l...), end...)
	}
	merged = append(merged, after...)
	if len(merged) > robots.MaxBytes {
		return nil, errRobotsLong
	}
	return merged, nil
}

// readable returns why a text cannot be a robots.txt, or nil.
func readable(text []byte) error {
	if len(text) > robots.MaxBytes {
		return errRobotsLong
	}
	for _, c := range text {
		if c < 0x20 && c != '\t' && c != '\n' && c != '\v' && c != '\f' && c != '\r' {
			return errRobotsBinary
		}
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		return errRobotsHTML
	}
	return nil
}

// lineEnd returns the line end of a text.
func lineEnd(text []byte) string {
	switch i := bytes.IndexAny(text, "\r\n"); {
	case i < 0 || text[i] == '\n':
		return "\n"
	case i+1 < len(text) && text[i+1] == '\n':
		return "\r\n"
	case bytes.IndexByte(text, '\n') >= 0:
		return "\n" // a stray one
	}
	return "\r"
}

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

// A span is one line of a text.
type span struct {
	line            int // from 1
	from, end, next int // where it begins, ends, and the next one begins
}

// spans yields the lines of a text, with any line ends.
func spans(text []byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		for s := (span{line: 1}); s.from < len(text); s = (span{line: s.line + 1, from: s.next}) {
			if n := bytes.IndexAny(text[s.from:], "\r\n"); n < 0 {
				s.end, s.next = len(text), len(text)
			} else if s.end, s.next = s.from+n, s.from+n+1; bytes.HasPrefix(text[s.end:], []byte("\r\n")) {
				s.next++
			}
			if !yield(s) {
				return
			}
		}
	}
}

// cutBlock removes the block from a text, with the line end before it, which was added with it.
func cutBlock(text []byte) (before, after []byte, found bool, err error) {
	var begin, end span
	for l := range spans(text) {
		switch s := strings.TrimSpace(string(text[l.from:l.end])); {
		case s == blockBegin && begin.line > 0, s == blockEnd && (begin.line == 0 || end.line > 0):
			return nil, nil, false, fmt.Errorf("line %d is an unexpected %q: leave one block between %q and %q, or none", l.line, s, blockBegin, blockEnd)
		case s == blockBegin:
			begin = l
		case s == blockEnd:
			end = l
		case begin.line > 0 && end.line == 0 && !isReplaceable(s):
			return nil, nil, false, fmt.Errorf("line %d is %.100q, between %q and %q, where every line is replaced: move it below %q, so that it is not lost",
				l.line, s, blockBegin, blockEnd, blockEnd)
		}
	}
	switch {
	case begin.line == 0:
		return nil, nil, false, nil
	case end.line == 0:
		return nil, nil, false, fmt.Errorf("%q has no %q after it: remove the line, or add the other", blockBegin, blockEnd)
	}
	return bytes.TrimSuffix(text[:begin.from], text[begin.end:begin.next]), text[end.next:], true, nil
}

// isReplaceable reports whether a line of a block may be lost. A rule never may: a name that is unknown here
// may mean something to others.
func isReplaceable(line string) bool {
	line, _, _ = strings.Cut(line, "#")
	name, _, _ := strings.Cut(line, ":")
	name = strings.TrimSpace(name)
	return name == "" && strings.TrimSpace(line) == "" || strings.EqualFold(name, "sitemap") || strings.EqualFold(name, "manifest")
}

// A RobotsFault is a problem of a robots.txt that keeps crawlers from finding the lists of pages.
type RobotsFault struct {
	Line    int    // from 1; 0 for the whole file
	Problem string // what is wrong
	Cure    string // what to do
}

func (f RobotsFault) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("robots.txt: %s. %s", f.Problem, f.Cure)
	}
	return fmt.Sprintf("robots.txt, line %d: %s. %s", f.Line, f.Problem, f.Cure)
}

// Check reads the file and returns the faulty lines and the missing ones. It looks beside Path for the files
// of this site's URLs. A missing robots.txt is a fault; the error is about reading it.
func (r *Robots) Check() ([]RobotsFault, error) {
	f, err := os.Open(r.Path)
	if errors.Is(err, fs.ErrNotExist) && len(r.missing(nil)) == 0 {
		return nil, nil
	} else if errors.Is(err, fs.ErrNotExist) {
		return []RobotsFault{{Problem: "the file does not exist", Cure: r.addLines(nil)}}, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, robots.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if err := readable(text); err != nil {
		problem, cure, _ := strings.Cut(err.Error(), ": ")
		return []RobotsFault{{Problem: problem, Cure: sentence(cure)}}, nil
	}
	var faults []RobotsFault
	if u, err := protocol.CanonicalURL("", r.Base); err == nil && u != protocol.Origin(u)+"/" {
		faults = append(faults, RobotsFault{Problem: "the site is not at the root of its host, and crawlers fetch " + protocol.Origin(u) + "/robots.txt",
			Cure: "Add the lines to that file."})
	}
	if _, _, _, err := cutBlock(text); err != nil {
		faults = append(faults, RobotsFault{Problem: err.Error(), Cure: "Until this is corrected, no lines are merged."})
	}
	for _, l := range linesOf(text) {
		if problem, cure := r.fault(text, l.name, l.value); problem != "" {
			faults = append(faults, RobotsFault{Line: l.line, Problem: problem, Cure: cure})
		}
	}
	if len(r.missing(text)) > 0 {
		faults = append(faults, RobotsFault{Problem: "it does not name all lists of pages", Cure: r.addLines(text)})
	}
	return faults, nil
}

func (r *Robots) addLines(text []byte) string {
	return "Add these lines, or run with --write-robots: " + strings.Join(r.missing(text), "; ")
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

type robotsLine struct {
	line        int
	name, value string
}

// linesOf returns the Sitemap and Manifest lines of a text, as crawlers read them.
func linesOf(text []byte) (list []robotsLine) {
	for l := range spans(text) {
		f := robots.Parse(text[l.from:l.end])
		for _, name := range []string{"Sitemap", "Manifest"} {
			for _, v := range f.Lines(name) {
				list = append(list, robotsLine{l.line, name, v})
			}
		}
	}
	return list
}

// fault checks the value of one line.
func (r *Robots) fault(text []byte, name, value string) (problem, cure string) {
	u, err := protocol.CanonicalURL("", value)
	if err != nil {
		return fmt.Sprintf("%s: %.200s is not an absolute URL", name, value), "Write it with https:// and the host: many crawlers ignore anything else."
	}
	base, err := protocol.CanonicalURL("", r.Base)
	if err != nil {
		return "", ""
	}
	if protocol.Origin(u) != protocol.Origin(base) {
		return fmt.Sprintf("%s: %.200s is at another origin than %s", name, value, protocol.Origin(base)),
			"If it is left over from another host, or from http, correct it; crawlers use its pages for this site only if that is intended."
	}
	if !robots.Parse(text).Allowed("*", u[len(protocol.Origin(u)):]) {
		return fmt.Sprintf("%s: %.200s is forbidden by the rules of this file", name, value), "Allow it: crawlers do not fetch forbidden URLs."
	}
	rest, ok := strings.CutPrefix(u, base)
	if place, err := url.PathUnescape(rest); ok && err == nil && !strings.Contains(rest, "?") && filepath.IsLocal(filepath.FromSlash(place)) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(r.Path), filepath.FromSlash(place))); errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%s: %.200s has no file in the docroot", name, value), "Remove the line, unless a program serves this URL."
		}
	}
	return "", ""
}
