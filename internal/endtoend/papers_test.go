package endtoend

import (
	"encoding/json"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
)

// rowsOf is the number of rows of docs/papers.md by their first letter: 301, and 46 errata.
var rowsOf = map[byte]int{'C': 37, 'F': 17, 'V': 31, 'G': 51, 'L': 19, 'S': 12, 'Q': 12, 'B': 13, 'K': 12, 'P': 21, 'A': 13, 'R': 29, 'E': 46, 'O': 34}

var (
	paperRow    = regexp.MustCompile(`(?m)^\| ([A-Z]\d\d) \|(.*)\|$`)
	paperID     = regexp.MustCompile(`\b([ABCEFGKLOPQRSV]\d\d)\b`)
	inBackticks = regexp.MustCompile("`([^`\n]+)`")
	testName    = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*\b`)
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	optionName  = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)
	configRow   = regexp.MustCompile(`(?m)^# ([A-Z]\d\d) .*?  (--[a-z-]+) `)
	commandName = regexp.MustCompile(`^[a-z]+$`)
)

// docs/papers.md has a row for each id that a comment cites, and each file, package, test, option and command
// that it names exists. A row counts as working only if it names a test or a command. Links are checked by
// TestManualPages.
func TestPapers(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/papers.md"))
	rows, count := map[string]string{}, map[byte]int{}
	for _, m := range paperRow.FindAllSubmatch(text, -1) {
		id, cells := string(m[1]), strings.Split(string(m[2]), " | ")
		if rows[id] != "" {
			t.Errorf("%s has two rows", id)
		}
		rows[id] = string(m[0])
		count[id[0]]++
		if len(cells) != 4 {
			t.Errorf("%s has %d columns", id, len(cells)+1)
			continue
		}
		state, _, _ := strings.Cut(strings.TrimSpace(cells[2]), ":")
		if !slices.Contains([]string{"works", "otherwise", "to come", "not built"}, state) {
			t.Errorf("%s: unknown state %q", id, state)
		}
		if paper, _, _ := strings.Cut(strings.TrimSpace(cells[1]), " "); !slices.Contains([]string{"Castillo", "LA-WEB", "Cao", "advaRSS", "Parley"}, paper) {
			t.Errorf("%s: unknown paper %q", id, paper)
		}
		shown := false
		for _, code := range inBackticks.FindAllStringSubmatch(cells[3], -1) {
			shown = shown || testName.MatchString(code[1]) || regexp.MustCompile(`^(crawler|notifier|rdfgen|go run) `).MatchString(code[1])
		}
		if state == "works" && !shown {
			t.Errorf("%s is marked as working, but names no test or command", id)
		}
	}
	for _, id := range paperID.FindAll(text, -1) {
		if rows[string(id)] == "" {
			t.Errorf("docs/papers.md mentions %s, but has no such row", id)
		}
	}
	for letter, want := range rowsOf {
		if n := count[letter]; n != want {
			t.Errorf("%d rows %c, want %d", n, letter, want)
		}
	}

	tests := map[string]bool{}
	goFiles(t, func(path string, source []byte) {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range testFunc.FindAllSubmatch(source, -1) {
				tests[string(m[1])] = true
			}
		}
		for _, comment := range comments(source) {
			for _, id := range paperID.FindAllString(comment, -1) {
				if rows[id] == "" {
					t.Errorf("%s cites %s, which is not in docs/papers.md", path, id)
				}
			}
		}
	})

	options := allOptions(t)
	for _, m := range inBackticks.FindAllSubmatch(text, -1) {
		if err := exists(string(m[1]), tests, options); err != nil {
			t.Errorf("docs/papers.md names `%s`: %v", m[1], err)
		}
	}

	// The crawler itself reports which of its options the papers' settings are.
	settings, _ := run(t, "crawler", "config", "--all")
	for _, m := range configRow.FindAllStringSubmatch(settings, -1) {
		if row := rows[m[1]]; row != "" && !strings.Contains(row, "`"+m[2]) {
			t.Errorf("%s is %s according to \"crawler config --all\", but not in docs/papers.md", m[1], m[2])
		}
	}
}

// exists reports whether the name in backticks exists: a test, an option, a command with its options, or a
// path from the root of the repository.
func exists(code string, tests map[string]bool, options map[string]map[string]bool) error {
	words := strings.Fields(code)
	switch {
	case words[0] == "grep":
		return nil
	case words[0] == "go":
		for _, word := range words[1:] {
			if dir, ok := strings.CutPrefix(word, "./"); ok && dir != "package" {
				if _, err := os.Stat(filepath.Join("../..", dir)); err != nil {
					return err
				}
			}
		}
		return nil
	case options[words[0]] != nil:
		name := words[0]
		for _, word := range words[1:] {
			if options[name+" "+word] == nil {
				for other := range options {
					if strings.HasPrefix(other, name+" ") && commandName.MatchString(word) {
						return fmt.Errorf("%s has no such command", name)
					}
				}
				break
			}
			name += " " + word
		}
		for _, m := range optionName.FindAllStringSubmatch(code, -1) {
			if !options[name][m[1]] {
				return fmt.Errorf("%s has no option --%s", name, m[1])
			}
		}
		return nil
	case strings.HasPrefix(code, "--"):
		for _, m := range optionName.FindAllStringSubmatch(code, -1) {
			found := false
			for _, of := range options {
				found = found || of[m[1]]
			}
			if !found {
				return fmt.Errorf("no program has this option")
			}
		}
		return nil
	case testName.FindString(code) == code:
		if !tests[code] {
			return fmt.Errorf("there is no such test")
		}
		return nil
	}
	_, err := os.Stat(filepath.Join("../..", code))
	return err
}

// allOptions returns the options of each program and of each of its commands, such as "crawler run".
func allOptions(t *testing.T) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	part := regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}\S`)
	var add func(words []string)
	add = func(words []string) {
		of := map[string]bool{}
		all[strings.Join(words, " ")] = of
		help, _ := run(t, words[0], append(words[1:], "-h")...)
		if _, parts, ok := strings.Cut(help, "\nCommands:\n"); ok {
			parts, _, _ = strings.Cut(parts, "COMMAND -h")
			for _, m := range part.FindAllStringSubmatch(parts, -1) {
				add(append(words[:len(words):len(words)], m[1]))
			}
		}
		out, _ := run(t, words[0], append(words[1:], "--help-json")...)
		var table []command.Option
		if json.Unmarshal([]byte(out), &table) == nil { // else it has only commands, and no options
			for _, o := range table {
				of[o.Name] = true
			}
		}
	}
	for _, program := range []string{"rdfgen", "notifier", "crawler"} {
		add([]string{program})
	}
	return all
}

// goFiles calls f with each Go file of the repository.
func goFiles(t *testing.T, f func(path string, source []byte)) {
	must.OK(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err == nil {
			f(path, source)
		}
		return err
	}))
}

// comments returns the comments of a Go file.
func comments(source []byte) (list []string) {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), source, nil, scanner.ScanComments)
	for {
		_, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return list
		case token.COMMENT:
			list = append(list, text)
		}
	}
}
