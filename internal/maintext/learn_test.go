package maintext_test

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/maintext"
)

// pairsOf yields texts in two builds.
func pairsOf(before, after []string) iter.Seq2[[]byte, []byte] {
	return func(yield func(before, after []byte) bool) {
		for i := range before {
			if !yield([]byte(before[i]), []byte(after[i])) {
				return
			}
		}
	}
}

// builds returns n pages of one template in two builds. In a pattern "{a|b}"
// is a in the first and b in the second; # is the number of the page.
func builds(n int, template string) (before, after []string) {
	choice := regexp.MustCompile(`\{([^|}]*)\|([^}]*)\}`)
	for i := range n {
		page := strings.ReplaceAll(template, "#", fmt.Sprint(i))
		before = append(before, choice.ReplaceAllString(page, "$1"))
		after = append(after, choice.ReplaceAllString(page, "$2"))
	}
	return before, after
}

func patterns(l maintext.Lesson) (list []string) {
	for _, p := range l.Proposals {
		list = append(list, p.Pattern)
	}
	return list
}

// Text written by builds is found, whatever it looks like.
func TestLearn(t *testing.T) {
	for template, want := range map[string]string{
		"Page #\nVersion {6.1.187|6.1.190}":                                                  `^Version \d+(\.\d+)+$`,
		"{6.1.187|6.1.190}\nPage #":                                                          `^\d+(\.\d+)+$`,
		"Git {2.39.5-0+deb12u2|2.39.5-0+deb12u3} manual":                                     `^Git \d+(\.\d+)*([-+~_.]?[a-z]{0,8}\d+)* manual$`,
		"page # last updated {2025-01-11 19:46:03 UTC|2025-10-07 12:22:08 UTC}":              `page \d+ last updated \d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?(Z|UTC|GMT|[-+]\d\d:?\d\d))?$`,
		"On {2025-01-11|2025-10-07} it was made":                                             `^On \d{4}-\d\d-\d\d it was`,
		"Stand: {3. März 2025|12. April 2025}, alles":                                        `^Stand: \d{1,2}(st|nd|rd|th|\.)? \pL+\.?,? \d{4}, alles$`,
		"Built {March 3, 2025|April 12, 2025} here":                                          `^Built [A-Z][a-z]+\.? \d{1,2}(st|nd|rd|th)?,? \d{4} here$`,
		"Date: {Tue, 07 Oct 2025 12:22:08 +0000|Wed, 08 Oct 2025 01:02:03 +0000}":            `^Date: [A-Z][a-z]+,? \d{1,2}\.? [A-Z][a-z]+\.?,? \d{4} \d{1,2}:\d\d(:\d\d)?([.,]\d+)? ?(Z|UTC|[A-Z]+T|[-+]\d\d:?\d\d)$`,
		"Now {Tue Oct 7 12:22:08 UTC 2025|Wed Oct 8 11:00:00 UTC 2025}":                      `^Now [A-Z][a-z]+ [A-Z][a-z]+ \d{1,2} \d\d:\d\d:\d\d ([A-Z]+ )?\d{4}$`,
		"It is {9:05 AM|10:15 PM} now":                                                       `^It is \d{1,2}:\d\d(:\d\d)?([.,]\d+)? ?[AaPp]\.?[Mm]\.? now$`,
		"commit {1a2b3c4|5d6e7f8a} of main":                                                  `^commit [0-9a-f]{7,} of main`,
		"id {123e4567-e89b-12d3-a456-426614174000|00000000-e89b-12d3-a456-42661417400f} end": `^id [0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12} end$`,
		"nonce {aB3dE9xKq0Zz|Zz9qPl2mW8aa} end":                                              `^nonce \w{8,} end$`,
		"read by {1,234|999} people in {17|3} ms":                                            `^read by \d[\d,.]* people in`,
		"Release r{17|18}-rc{1|2} is out":                                                    `^Release r\d+-rc\d+ is`,
		"see {3/14/2025|12/1/2025} (again) in print":                                         `^see \d{1,4}/\d{1,2}/\d{2,4} \(again\) in`,
	} {
		before, after := builds(10, template)
		var l maintext.Learner
		lesson := l.Learn(pairsOf(before, after))
		got := patterns(lesson)
		if len(got) == 0 || !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %q", template, got, want)
			continue
		}
		if lesson.Changed != 10 || lesson.Left != 0 || lesson.Proposals[0].Pages != 10 || lesson.Proposals[len(got)-1].Explained != 10 {
			t.Errorf("%s: %+v", template, lesson)
		}
		if p := lesson.Proposals[0]; p.Before == p.After || !strings.Contains(before[0], p.Before) || !strings.Contains(after[0], p.After) {
			t.Errorf("%s: the example is %q -> %q", template, p.Before, p.After)
		}
		masks(t, got...) // they are patterns
	}
}

// Text written by a person is not proposed.
func TestLearnProposesNoProse(t *testing.T) {
	for _, template := range []string{
		"The {quick|lazy} fox",
		"Page # is {new|}",
		"It costs {ten|eleven} euros",
		"a\n{b|c}\nd",
		"{deadbeef|defaced} words",
		"all {internal|international} words",
		"{|6.1.190} came new",
		"See {chapter 3|section 7}",
	} {
		before, after := builds(10, template)
		var l maintext.Learner
		if lesson := l.Learn(pairsOf(before, after)); len(lesson.Proposals) > 0 || lesson.Changed != 10 || lesson.Left != 10 {
			t.Errorf("%s: %+v", template, lesson)
		}
	}
	// A number that differs on one page is an edit.
	before, after := builds(10, "The limit is 512 pages on #")
	after[3] = strings.Replace(after[3], "512", "1024", 1)
	var l maintext.Learner
	if lesson := l.Learn(pairsOf(before, after)); len(lesson.Proposals) > 0 || lesson.Changed != 1 || lesson.Left != 1 {
		t.Errorf("%+v", lesson)
	}
}

func TestLearnCountsPages(t *testing.T) {
	before, after := builds(90, "Page #\nVersion {1.0|1.1} of this")
	more, more2 := builds(10, "Page #\nVersion {1.0|1.1} of this\nUpdated on {2025-01-01|2025-02-02} by a robot")
	before, after = append(before, more...), append(after, more2...)
	after[5] += "\nand an edit"
	l := maintext.Learner{MinShare: 0.05}
	lesson := l.Learn(pairsOf(before, after))
	if len(lesson.Proposals) != 2 || lesson.Changed != 100 || lesson.Left != 1 {
		t.Fatalf("%+v", lesson)
	}
	if p := lesson.Proposals[0]; p.Pages != 100 || p.Explained != 89 {
		t.Errorf("%+v", p)
	}
	if p := lesson.Proposals[1]; p.Pages != 10 || p.Explained != 99 {
		t.Errorf("%+v", p)
	}

	l.MinShare = 0.2
	if lesson := l.Learn(pairsOf(before, after)); len(lesson.Proposals) != 1 || lesson.Left != 11 {
		t.Errorf("with a minimum share of a fifth of the pages: %+v", lesson)
	}
	// Text that is masked already is neither proposed again, nor context for another mask.
	l = maintext.Learner{Masks: masks(t, `Version [\d.]+`, "by a")}
	lesson = l.Learn(pairsOf(before, after))
	if len(lesson.Proposals) != 1 || lesson.Changed != 11 || lesson.Left != 1 || lesson.Proposals[0].Pattern != `^Updated on \d{4}-\d\d-\d\d` {
		t.Errorf("with a mask: %+v", lesson)
	}
}

// Pages of one site, with stamps, and with edits on some: the masks explain
// all stamps, no edit, and leave the prose as it is.
func TestLearnedMasksLeaveProse(t *testing.T) {
	w := newWriter(7)
	var before, after, prose []string
	edited := 0
	for i := range 300 {
		words := w.words(50 + w.IntN(300))
		for j := range words {
			if w.IntN(10) == 0 {
				words[j] = [...]string{"1.2.3", "2024-05-06", "12:30", "42", "deadbeef1", "Version", "built", "12 May 2024"}[w.IntN(8)]
			}
		}
		body := lines(w.Rand, words)
		stamp := func(version, date string, n int) string {
			s := fmt.Sprintf("Handbook version %s\n%s\nBuilt on %s from %07x%04x", version, body, date, n*1234577, i)
			if i%3 == 0 {
				s += fmt.Sprintf("\nPage %d was read %d times", i, n*i)
			}
			return s
		}
		before = append(before, stamp("6.1.187-1", "11 January 2025", 77))
		if i%30 == 7 {
			edited++
			body += "\nOne more sentence of 7 words."
		}
		after = append(after, stamp("6.1.190-1", "7 October 2025", 81))
		prose = append(prose, body)
	}
	var l maintext.Learner
	lesson := l.Learn(pairsOf(before, after))
	for _, p := range lesson.Proposals {
		t.Logf("%d pages, %d explained: %s (%q -> %q)", p.Pages, p.Explained, p.Pattern, p.Before, p.After)
	}
	if lesson.Changed != 300 || lesson.Left != edited {
		t.Errorf("%d changed, %d are left, %d were edited", lesson.Changed, lesson.Left, edited)
	}
	m := masks(t, patterns(lesson)...)
	for i, body := range prose {
		if got := m.Apply([]byte(after[i])); !bytes.Contains(got, []byte(body)) {
			t.Fatalf("page %d: the masks removed prose from\n%s\nand left\n%s", i, body, got)
		}
	}
}

func lines(r *rand.Rand, words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 && r.IntN(12) == 0 {
			b.WriteByte('\n')
		} else if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()
}

// For any two texts, learning ends, and the proposed masks
// can be written into a configuration file.
func FuzzLearn(f *testing.F) {
	f.Add("Version 1.2\nx", "Version 1.3\nx")
	f.Add("a # 12 b\n\n1", "a # 13 b\n\n2")
	f.Add("\xff 1 \xfe", "\xff 2 \xfe")
	f.Add("Tue Oct 7 12:22:08 2025", "Wed Oct 8 12:22:08 UTC 2025")
	f.Fuzz(func(t *testing.T, before, after string) {
		var l maintext.Learner
		list := []string{before, before, before + "\nx"}
		lesson := l.Learn(pairsOf(list, []string{after, after, after + "\ny"}))
		for _, p := range lesson.Proposals {
			if strings.ContainsAny(p.Pattern, "\n#") || strings.TrimSpace(p.Pattern) != p.Pattern || p.Pages < 2 {
				t.Fatalf("%+v", p)
			}
			m, err := maintext.ParseMasks([]string{p.Pattern})
			if err != nil {
				t.Fatalf("%q -> %q: %v", before, after, err)
			}
			for _, prose := range []string{"only words here", "nothing, at all!", ""} {
				if got := m.Apply([]byte(prose)); string(got) != prose {
					t.Fatalf("mask %q turns %q into %q", p.Pattern, prose, got)
				}
			}
		}
	})
}
