package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
)

const learnHelp = `
A site generator writes its version, the date, or the number of a build into
every page. Build the site twice, and list the differences that no person wrote:
    rdfgen learn build-monday/ build-tuesday/

Append the masks to the configuration file of rdfgen and notifier, and delete
those that you do not want:
    rdfgen learn build-monday/ build-tuesday/ >> parley.conf

See what still differs with the masks that you have:
    rdfgen learn build-monday/ build-tuesday/ --config parley.conf

A mask is a pattern (RE2) for the main text of a page, whose lines are its
paragraphs, headings, and rows of tables. Matching text is ignored
when the changed share of a page is measured, so that nobody is notified of a
build stamp. Digests and dates of pages still follow their bytes.

Read every line before you keep it: a number that differs on many pages can
be what visitors come for, such as a price.

Exit codes: 0 masks were proposed, or none is needed; 1 something failed; 2 wrong usage.`

const learnSize = 2 << 20 // the largest page whose changes are measured, in bytes

// learning is one run of rdfgen learn.
type learning struct {
	masks    []string
	share    float64
	json     bool
	old, new string // the directories of the builds
	env      *command.Env

	pages, changed int // pages in both builds; and those whose bytes differ
}

func learnCommand() *command.Command {
	l := learning{share: 0.02}
	return &command.Command{
		Name:    "learn",
		Summary: "propose masks for what differs between two builds of a site",
		Usage:   "BUILD1 BUILD2 [options]",
		Help:    learnHelp,
		Args:    []string{"BUILD1", "BUILD2"},
		// The masks of a site are in its configuration file.
		File: command.File{Foreign: []string{"*"}},
		Flags: []command.Flag{
			command.Bind("mask", &l.masks, "ignore text that matches `PATTERN`, a mask that you already use (repeatable)"),
			command.Bind("min-share", &l.share, "propose only masks that apply to at least this `SHARE` of the changed pages, above 0 and at most 1"),
			command.Bind("json", &l.json, "print the proposals as JSON"),
		},
		Run: func(ctx context.Context, env *command.Env) error {
			l.old, l.new, l.env = env.Args[0], env.Args[1], env
			return l.run(ctx)
		},
	}
}

func (l *learning) run(ctx context.Context) error {
	if !(l.share > 0 && l.share <= 1) {
		return command.Misusef("--min-share %v: want a share above 0, up to 1", l.share)
	}
	masks, err := maintext.ParseMasks(l.masks)
	if err != nil {
		return command.Misusef("--mask: %w", err)
	}
	bar := l.env.Progress("reading", -1)
	learner := maintext.Learner{Masks: masks, MinShare: l.share}
	lesson := learner.Learn(l.pairs(ctx, func() { bar.Add(1) }, &err))
	bar.Done()
	switch {
	case err != nil:
		return err
	case l.pages == 0:
		return fmt.Errorf("%s and %s have no .html file of the same name: name the directories that two builds of one site were written to", l.old, l.new)
	}
	if l.json {
		return l.env.PrintJSON(learned{l.pages, l.changed, lesson.Changed, lesson.Left, learnedMasks(lesson)})
	}
	w := bufio.NewWriter(l.env.Stdout)
	for _, p := range lesson.Proposals {
		fmt.Fprintf(w, "# on %d of %d changed pages, %q -> %q\nmask %s\n", p.Pages, lesson.Changed, onLine(p.Before), onLine(p.After), p.Pattern)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(l.env.Stderr, "%d pages are in both builds. %d differ in bytes, and %d in main text", l.pages, l.changed, lesson.Changed)
	if n := len(lesson.Proposals); n > 0 {
		fmt.Fprintf(l.env.Stderr, "; with the %d proposed masks, %d", n, lesson.Left)
	}
	fmt.Fprintln(l.env.Stderr, ".")
	switch {
	case len(lesson.Proposals) > 0:
		fmt.Fprintln(l.env.Stderr, "Next: copy the masks that you agree with into your --config file.")
	case lesson.Changed > 0:
		fmt.Fprintln(l.env.Stderr, "No mask is proposed: no generated text differs on enough pages.")
	}
	return nil
}

// learned is the JSON output.
type learned struct {
	Pages       int           `json:"pages"`        // in both builds
	Changed     int           `json:"changed"`      // whose bytes differ
	ChangedText int           `json:"changed_text"` // whose main text differs
	Left        int           `json:"left"`         // whose main text differs with all masks applied
	Masks       []learnedMask `json:"masks"`
}

type learnedMask struct {
	Pattern   string `json:"pattern"`
	Pages     int    `json:"pages"`
	Explained int    `json:"explained"`
	Before    string `json:"before"`
	After     string `json:"after"`
}

func learnedMasks(lesson maintext.Lesson) []learnedMask {
	list := []learnedMask{} // in JSON, none is [] and not null
	for _, p := range lesson.Proposals {
		list = append(list, learnedMask(p))
	}
	return list
}

// onLine shortens the text that a mask matched so that it fits on a line.
func onLine(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return s
}

// pairs yields the main texts of the pages that are in both builds and differ. It counts while it is
// iterated. An error is stored in err.
func (l *learning) pairs(ctx context.Context, step func(), err *error) iter.Seq2[[]byte, []byte] {
	return func(yield func(before, after []byte) bool) {
		l.pages, l.changed = 0, 0
		if *err != nil {
			return
		}
		*err = l.walk(ctx, step, yield)
	}
}

func (l *learning) walk(ctx context.Context, step func(), yield func(before, after []byte) bool) error {
	if _, err := os.Stat(l.old); err != nil {
		return err
	}
	newer, err := filepath.EvalSymlinks(l.new)
	if err != nil {
		return err
	}
	// Links may form cycles or lead out of the build: WalkDir follows none. Not every name is UTF-8, as that of an fs.FS.
	return filepath.WalkDir(newer, func(name string, d fs.DirEntry, err error) error {
		switch ext := strings.ToLower(filepath.Ext(name)); {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.Type().IsRegular() || ext != ".html" && ext != ".htm" && ext != ".xhtml":
			return nil
		}
		before, err := readBuilt(filepath.Join(l.old, strings.TrimPrefix(name, newer)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		after, err := readBuilt(name)
		if err != nil {
			return err
		}
		step()
		if before == nil || after == nil {
			return nil
		}
		l.pages++
		if bytes.Equal(before, after) {
			return nil
		}
		l.changed++
		text := func(page []byte) []byte { return html.Read("", page, html.Options{Text: true}).Text }
		if !yield(text(before), text(after)) {
			return fs.SkipAll
		}
		return nil
	})
}

// readBuilt reads a page; nil if it is larger than learnSize.
func readBuilt(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	page, err := io.ReadAll(io.LimitReader(f, learnSize+1))
	switch {
	case err != nil:
		return nil, err
	case len(page) > learnSize:
		return nil, nil
	case page == nil:
		page = []byte{}
	}
	return page, nil
}
