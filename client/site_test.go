package client_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A listener follows a real site in a goroutine of its own, which ends with the test.
type listener struct {
	t     *testing.T
	site  *sitetest.Site
	stood chan stand // the newest one, if nobody has taken it yet
}

type stand struct {
	at    protocol.Cursor
	door  client.Door
	pages map[string]protocol.Digest
}

func listen(t *testing.T, s *sitetest.Site, src *client.Source) *listener {
	l := &listener{t: t, site: s, stood: make(chan stand, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() {
		defer close(done)
		var have, named map[string]protocol.Digest
		have = map[string]protocol.Digest{}
		for st, err := range client.Follow(ctx, src, protocol.Cursor{}) {
			if err != nil {
				t.Log(time.Now().Format("05.000"), err)
				continue
			}
			if st.Reset {
				named = map[string]protocol.Digest{}
			}
			for _, c := range st.Changes {
				delete(have, c.From)
				delete(have, c.Item.URL)
				if c.Op != protocol.Delete {
					have[c.Item.URL] = c.Item.Digest
				}
				if st.Door == client.Manifest {
					named[c.Item.URL] = c.Item.Digest
				}
			}
			if st.Whole {
				have = maps.Clone(named)
			}
			if st.Cursor.IsZero() {
				continue
			}
			select {
			case <-l.stood:
			default:
			}
			l.stood <- stand{st.Cursor, st.Door, maps.Clone(have)}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return l
}

// expect waits until the listener has the site's cursor, and what the site has. A file that was written twice within 2 s is scanned later, and the site has an earlier
// state of it until then.
func (l *listener) expect(what string) client.Door {
	l.t.Helper()
	timeout := time.After(30 * time.Second)
	var last stand
	for {
		select {
		case last = <-l.stood:
		case <-time.After(20 * time.Millisecond): // the site may have moved
		case <-timeout:
			l.t.Fatalf("%s: %d pages at %v by %s, the site has %d at %v", what, len(last.pages), last.at, last.door, len(l.site.Pages()), l.site.Head())
		}
		if last.at != l.site.Head() {
			continue
		}
		want := map[string]protocol.Digest{}
		for u, text := range l.site.Pages() {
			want[u] = protocol.Sum([]byte(text))
		}
		if maps.Equal(last.pages, want) {
			return last.door
		}
	}
}

// A real server: every failure that it can have, one after the other.
func TestRealSite(t *testing.T) {
	files := map[string]string{"index.html": "home"}
	for i := range 1200 {
		files[fmt.Sprintf("d%d/p%d.html", i%7, i)] = fmt.Sprint("page ", i)
	}
	s := sitetest.NewSite(t, files)
	s.Break("/robots.rdf", sitetest.Times(1, sitetest.Truncate(100_000)))
	l := listen(t, s, &client.Source{Base: s.Base, UserAgent: "Test"})
	if d := l.expect("first sync"); d != client.Manifest {
		t.Errorf("first sync by %s", d)
	}
	step := 0
	edit := func() {
		step++
		s.Write(fmt.Sprintf("d1/new%d.html", step), fmt.Sprint("new ", step))
		s.Write("index.html", fmt.Sprint("home ", step))
		s.Rename(fmt.Sprintf("d2/p%d.html", 7*step+2), fmt.Sprintf("moved/%d.html", step))
		s.Remove(fmt.Sprintf("d3/p%d.html", 7*step+3))
		s.Publish()
	}
	for _, tt := range []struct {
		what    string
		trouble func()
		want    client.Door
	}{
		{"edit", func() { edit() }, client.Stream},
		{"cut", func() { s.Cut(); edit() }, client.Stream},
		{"restart", func() { s.Restart(edit2(s, &step)); s.Publish() }, client.Stream},
		{"lost state", func() { s.LoseState() }, client.Manifest},
		{"edit after lost state", func() { edit() }, client.Stream},
		{"no upgrade", func() { s.Break("/parley/stream", sitetest.NoUpgrade); s.Cut(); edit() }, client.Changes},
		{"slow", func() { s.Break("/parley/changes", sitetest.Slow(200*time.Millisecond)); edit() }, client.Changes},
		{"busy", func() {
			s.Break("/parley/changes", sitetest.Times(2, sitetest.Status(503, time.Second)))
			s.Cut()
			edit()
		}, client.Changes},
		{"wrong bytes", func() {
			s.Break("/parley/changes", sitetest.Times(2, sitetest.Bytes(`{"t":"batch","from":"0:0"`)))
			s.Cut()
			edit()
		}, client.Changes},
	} {
		tt.trouble()
		t.Log(time.Now().Format("05.000"), tt.what)
		if d := l.expect(tt.what); d != tt.want {
			t.Errorf("%s: change received by %s, want %s", tt.what, d, tt.want)
		}
	}
}

// edit2 is an edit while the notifier is down.
func edit2(s *sitetest.Site, step *int) func() {
	return func() {
		*step++
		s.Write("down.html", fmt.Sprint("down ", *step))
	}
}

// Many followers, by both doors, of a site that changes and is cut at random.
func TestRealSiteManyFollowers(t *testing.T) {
	files := map[string]string{"index.html": "home"}
	for i := range 30 {
		files[fmt.Sprintf("p%d.html", i)] = fmt.Sprint("page ", i)
	}
	s := sitetest.NewSite(t, files)
	s.Watch()
	var all []*listener
	for i := range 6 {
		all = append(all, listen(t, s, &client.Source{Base: s.Base, NoStream: i%2 == 1}))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		switch p := fmt.Sprintf("p%d.html", r.IntN(30)); r.IntN(8) {
		case 0:
			s.Remove(p)
		case 1:
			s.Cut()
		case 2:
			s.Publish()
		default:
			s.Write(p, fmt.Sprint("edit ", i))
		}
	}
	s.Write("last.html", "the end")
	s.Publish()
	for i, l := range all {
		l.expect(fmt.Sprint("follower ", i))
	}
}
