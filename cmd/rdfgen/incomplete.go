package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// attention returns why a person should look at the result of a run, if there is a reason.
func attention(found *inventory.Report, checked *server.Checked) error {
	switch {
	case found.MassHeld:
		return fmt.Errorf("%d pages are missing, too many at once: no deletion is published until they return;"+
			" if they were deleted on purpose, run the same command with --accept-deletions", found.HeldNow)
	case found.Unhealed > 0 && found.Healed == 0:
		return fmt.Errorf("the mtime of %d pages could not be restored, so the web server reports them as changed: %s; run rdfgen as the owner of the files", found.Unhealed, found.Unhealing)
	case checked != nil && len(checked.Findings) > 0:
		return errors.New("self-check: the web server does not serve the site as published")
	}
	return nil
}

// maxNamed bounds the patterns in a message.
const maxNamed = 10

// incomplete returns an error if some of the docroot could not be read, with the patterns that leave it out, or if no page
// has ever been found in it.
func (j *job) incomplete(found *inventory.Report) error {
	pages := found.New + found.Changed + found.Moved + found.Touched + found.Returned + found.Unchanged + found.Unsettled + found.HeldNow
	switch {
	case j.site.Docroot == "":
		return nil
	case found.Unread == 0 && pages == 0 && found.Head.Seq == 0 && found.LeftOut == 0:
		return fmt.Errorf("no page was found in %s, and no other file: check --docroot", j.site.Docroot)
	case found.Unread == 0 && pages == 0 && found.Head.Seq == 0:
		return fmt.Errorf("no page was found in %s, where the number of files left out is %d: check --docroot; --dry-run lists what is left out, and why", j.site.Docroot, found.LeftOut)
	case found.Unread == 0:
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cannot read all of %s: what was published of these files and directories stays. Let the user that rdfgen runs as read them, or leave them out:", j.site.Docroot)
	places := slices.Sorted(maps.Keys(found.Unreadable))
	for _, place := range places[:min(maxNamed, len(places))] {
		b.WriteString(strings.TrimRight(fmt.Sprintf("\n    --exclude %-30s %s", patternOf(place), found.Unreadable[place]), " "))
	}
	if more := found.Unread - maxNamed; more > 0 {
		fmt.Fprintf(&b, "\n    and %d more, which --dry-run lists", more)
	}
	return errors.New(b.String())
}

// patternOf returns the pattern that matches exactly a place, quoted for a shell. It is quoted as in Go if it cannot be
// printed, or has a quote in it.
func patternOf(place string) string {
	pattern := "/" + escapePattern.Replace(place)
	if strings.ContainsFunc(pattern, func(r rune) bool { return r == '\'' || !unicode.IsPrint(r) }) {
		return strconv.Quote(pattern)
	}
	return "'" + pattern + "'"
}

var escapePattern = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`)
