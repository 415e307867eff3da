package gather_test

import (
	"net/http"
	"testing"

	"github.com/parleyweb/parley/internal/engine/gather"
)

// The charset of a title is the one in Content-Type, read anew for each response.
func TestCharsetOfTitles(t *testing.T) {
	var g gather.Gatherer
	for _, c := range []struct{ typ, want string }{
		{"text/html; charset=iso-8859-1", "Café"},
		{`text/html; x="a;charset=koi8-r"; Charset="ISO-8859-1"`, "Café"},
		{"text/html;charset=koi8-r", "CafИ"},
		{"text/html", "Café"},
		{"text/html; charset=", "Café"},
		{"text/html;,", "Café"},
		{"text/html;,;,x,;charset=koi8-r", "CafИ"},
	} {
		var p gather.Page
		if err := g.Read(&p, "https://a.example/", http.Header{"Content-Type": {c.typ}}, []byte("<title>Caf\xe9</title><p>x")); err != nil || p.Title != c.want {
			t.Errorf("%s: %q, %v", c.typ, p.Title, err)
		}
	}
}
