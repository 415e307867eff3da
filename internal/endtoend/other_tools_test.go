package endtoend

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// TestOtherToolsReadManifests makes third-party tools read the manifests of a real site and of a tree with
// odd names.
func TestOtherToolsReadManifests(t *testing.T) {
	rapper, xmllint := machine.Tool(t, "rapper"), machine.Tool(t, "xmllint")
	r := newRig(t)
	for _, name := range []string{"a&b.html", "<i>.html", `"quoted".html`, "it's.html", "ümlaut.html", "two\nlines.html",
		"tab\t.html", "\xff\xfe.html", "100%.html", "a?b=c#d.html", "日本/語.html", "]]>.html", "plain.html"} {
		r.write(name, "<title>"+name+"</title>")
	}
	docroots := []string{r.root}
	if gitDoc := os.Getenv("PARLEY_GIT_DOC"); isFile(filepath.Join(gitDoc, "git.html")) {
		docroots = append(docroots, gitDoc)
	}
	robots := filepath.Join(t.TempDir(), "robots.txt") // robots.txt of the host, for a site below a path
	must.Write(r.t, robots, "User-agent: *\nDisallow:\n")
	for _, docroot := range docroots {
		published := filepath.Join(filepath.Dir(r.root), "published.rdf")
		for _, flags := range [][]string{
			{"--docroot", docroot, "--base", "https://www.example.org/a%26b/", "--out", published, "--state", filepath.Join(t.TempDir(), "state"), "--robots", robots},
			{"--docroot", docroot, "--base", "https://www.example.org/", "--include", "**"},
		} {
			out, code := run(t, "rdfgen", flags...)
			if code != 0 {
				t.Fatalf("rdfgen %q: exit %d: %s", flags, code, out)
			}
			if flags[4] != "--out" {
				must.Write(r.t, published, out)
			}
			for _, witness := range [][]string{{xmllint, "--noout", published}, {rapper, "-q", "-c", "-i", "rdfxml", published}} {
				if said, err := exec.Command(witness[0], witness[1:]...).CombinedOutput(); err != nil || len(said) > 0 {
					t.Errorf("%s of %s: %v: %.500s", filepath.Base(witness[0]), docroot, err, said)
				}
			}
		}
	}
}
