package mirror_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/mirror"
	"github.com/parleyweb/parley/internal/sitetest"
)

// The real publisher and the real stream: cut, restarted, and with its
// journal lost, the copy follows, and asks for what changed and nothing else.
func TestFollowsARealSite(t *testing.T) {
	files := map[string]string{"index.html": "home", "a.html": "A", "d/b.html": "B", "d/c.html": "C"}
	s := sitetest.NewSite(t, maps.Clone(files))
	c := newCopy(t, &site{base: s.Base}, func(m *mirror.Mirror) { m.Source.NoStream = false })
	c.start()
	c.want(files)
	write := func(name, text string) { files[name] = text; s.Write(name, text) }
	for _, step := range []struct {
		name string
		do   func()
		gets string
	}{
		{"edit", func() { write("a.html", "A2"); s.Publish() }, "/a.html"},
		{"rename of a directory", func() {
			s.Rename("d", "e")
			for _, n := range []string{"b.html", "c.html"} {
				files["e/"+n] = files["d/"+n]
				delete(files, "d/"+n)
			}
			s.Publish()
		}, ""},
		{"deletion", func() { s.Remove("a.html"); delete(files, "a.html"); s.Publish() }, ""},
		{"cut", func() { s.Cut(); write("n.html", "N"); s.Publish() }, "/n.html"},
		{"restart", func() { s.Restart(func() { write("n.html", "N2") }); s.Publish() }, "/n.html"},
		{"lost journal", func() { s.LoseState(); write("e/b.html", "B2"); s.Publish() }, "/e/b.html"},
	} {
		s.ForgetRequests()
		step.do()
		c.want(files)
		var gets []string
		for _, r := range s.Requests() {
			if strings.HasPrefix(r.Agent, "Parley/") && !strings.HasSuffix(r.Path, "robots.rdf") && !strings.Contains(r.Path, "parley") {
				gets = append(gets, r.Path)
			}
		}
		slices.Sort(gets)
		if got := strings.Join(gets, " "); got != step.gets {
			t.Errorf("%s: asked for %q, want %q", step.name, got, step.gets)
		}
	}
	// It ends on the stream.
	var st mirror.Status
	for deadline := time.Now().Add(10 * time.Second); st.Door != client.Stream; time.Sleep(10 * time.Millisecond) {
		st, _ = mirror.ReadStatus(c.m.State)
		if time.Now().After(deadline) {
			t.Fatalf("status %+v", st)
		}
	}
}
