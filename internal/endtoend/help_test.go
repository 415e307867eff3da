package endtoend

import (
	"regexp"
	"strings"
	"testing"
)

// The help of each command shows only as many options as a person reads: the rest is in --help-all.
func TestHelpIsShort(t *testing.T) {
	option, part := regexp.MustCompile(`(?m)^  --\S+`), regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}\S`)
	var look func(words []string)
	look = func(words []string) {
		name := strings.Join(words, " ")
		text, code := run(t, words[0], append(words[1:], "-h")...)
		if n := len(option.FindAllString(text, -1)); code != 0 || n == 0 || n > 15 {
			t.Errorf("%s -h: exit code %d, %d options", name, code, n)
		}
		if all, _ := run(t, words[0], append(words[1:], "--help-all")...); len(all) < len(text)-len(" --help-all shows 00 more options.")-len(name)-2 {
			t.Errorf("%s --help-all prints less than -h", name)
		}
		if _, parts, ok := strings.Cut(text, "\nCommands:\n"); ok {
			parts, _, _ = strings.Cut(parts, "COMMAND -h")
			for _, m := range part.FindAllStringSubmatch(parts, -1) {
				look(append(words[:len(words):len(words)], m[1]))
			}
		}
	}
	for _, program := range []string{"rdfgen", "notifier", "crawler"} {
		look([]string{program})
	}
}
