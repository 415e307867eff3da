package endtoend

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// misspelt returns an option with a letter left out, with one doubled, with two swapped, and without a hyphen.
func misspelt(name string) []string {
	mid := len(name) / 2
	list := []string{name[:mid] + name[mid+1:], name[:mid+1] + name[mid:]}
	for i := range len(name) - 1 {
		k := (mid + i) % (len(name) - 1)
		if a, b := name[k:k+1], name[k+1:k+2]; a != b && a != "-" && b != "-" {
			list = append(list, name[:k]+b+a+name[k+2:])
			break
		}
	}
	if before, after, ok := strings.Cut(name, "-"); ok {
		list = append(list, before+after)
	}
	return list
}

// A configuration file with a misspelt option is answered with the line, the option as it is written there, and the right one: or, of a
// few short options, with another one that is as near.
func TestMisspeltOptions(t *testing.T) {
	file, tries, others := filepath.Join(t.TempDir(), "parley.conf"), 0, 0
	type line struct{ name, written string }
	// answered runs a command with a file, and checks what it says about the misspelt names, by their lines.
	answered := func(command, text string, lines map[int]line) {
		t.Helper()
		must.Write(t, file, text)
		words := append(strings.Fields(command), "--config", file)
		said, code := run(t, words[0], words[1:]...)
		if code != 2 {
			t.Errorf("%s: exit code %d: %.1000s", command, code, said)
		}
		for n, l := range lines {
			tries++
			_, answer, _ := strings.Cut(said, fmt.Sprintf("%s:%d: unknown option %q; did you mean \"", file, n, l.written))
			switch answer, _, ok := strings.Cut(answer, "\"?\n"); {
			case !ok:
				t.Errorf("%s does not say that %q on line %d may be %s: %.1000s", command, l.written, n, l.name, said)
			case answer != l.name && len(l.name) <= 5:
				others++
			case answer != l.name:
				t.Errorf("%s takes %q for %s, and not for %s", command, l.written, answer, l.name)
			}
		}
	}

	// Of a file with sections, each section is answered.
	for _, program := range []string{"rdfgen", "notifier"} {
		options, lines := defaults(t, program), map[int]line{}
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(options)) {
			for _, written := range misspelt(name) {
				if _, ok := options[written]; !ok {
					fmt.Fprintf(&text, "[s%d]\n%s x\n", len(lines), written)
					lines[2*len(lines)+2] = line{name, written}
				}
			}
		}
		if len(lines) < 3*len(options) {
			t.Errorf("%s: %d misspellings of %d options", program, len(lines), len(options))
		}
		answered(program, text.String(), lines)
	}
	// The crawler's files have no sections: it reads one for each option, which is misspelt in one way.
	for _, command := range []string{"crawl", "follow"} {
		options := defaults(t, "crawler", command)
		for name := range options {
			list := misspelt(name)
			written := list[len(name)%len(list)]
			if _, ok := options[written]; !ok {
				answered("crawler "+command, "# of this machine\n\n"+written+" x\n", map[int]line{3: {name, written}})
			}
		}
	}
	if crawl, run := defaults(t, "crawler", "crawl"), defaults(t, "crawler", "run"); !maps.Equal(crawl, run) {
		t.Error("crawl and run have different options: try both")
	}
	if others*25 > tries {
		t.Errorf("%d of %d misspelt options are answered with others", others, tries)
	}
}

// A value that cannot be right is answered once, with the file, the line and the option, and with what is wanted.
func TestMistakenValues(t *testing.T) {
	dir := t.TempDir()
	file, docroot := filepath.Join(dir, "parley.conf"), filepath.Join(dir, "html")
	must.OK(t, os.CopyFS(docroot, os.DirFS("../../examples/quickstart/site")))
	site := "base https://www.example.org/\ndocroot " + docroot + "\nstate " + filepath.Join(dir, "state") + "\n"
	for _, c := range []struct {
		command, text, want string
		code                int
	}{
		{"rdfgen", "base www.example.org\n", "FILE:1: base www.example.org: want a URL such as https://www.example.org/", 2},
		{"rdfgen --dry-run", "base https://www.example.org/\ndocroot \"" + docroot + "\"\n", "FILE:2: docroot: ", 1},
		{"notifier", "base https://www.example.org/\ndocroot " + docroot + "x\n", "FILE:2: docroot: ", 1},
		{"notifier", site + "listen 8639\n", "FILE:4: listen: ", 1},
		{"notifier", site + "listen 127.0.0.1:0\nadmin 8640\n", "FILE:5: admin: ", 1},
		{"notifier", site + "indexnow bng\n", "FILE:4: indexnow: engine \"bng\": want one of bing, ", 2},
		{"rdfgen", site + "title x\nindexnow bng\n", "FILE:5: indexnow: engine \"bng\": want one of bing, ", 1},
		{"rdfgen", site + "indexnow bing\nindexnow-key ?\n", "FILE:5: indexnow-key: want 8 to 128 letters", 1},
		{"rdfgen", site + "webhook hooks.example.net\n", "FILE:4: webhook: url \"hooks.example.net\": want http", 2},
		{"rdfgen", site + "heal maybe\n", "FILE:4: heal maybe: want true or false\n", 2},
		{"rdfgen", site + "feed-entries many\n", "FILE:4: feed-entries many: want a number\n", 2},
		{"rdfgen", "[my site]\n" + site, "FILE:1: the name of a section has ", 2},
		{"rdfgen --preset high", site, "unknown option --preset, which another program has", 2},
		{"crawler crawl http://127.0.0.1:9/", "into " + docroot + "\nadmin-token tokens\n", "FILE:2: admin-token tokens: it needs --admin\n", 2},
	} {
		must.Write(t, file, c.text)
		words := append(strings.Fields(c.command), "--config", file)
		if said, code := run(t, words[0], words[1:]...); code != c.code || !strings.Contains(said, strings.Replace(c.want, "FILE", file, 1)) || strings.Count(said, "want") > 2 {
			t.Errorf("%s with\n%s: exit code %d, not %d; it does not say %q but %s", c.command, c.text, code, c.code, c.want, said)
		}
	}
}
