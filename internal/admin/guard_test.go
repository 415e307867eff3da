package admin_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/admin"
)

const token, another = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

// guarded returns a handler behind a guard, which answers "in".
func guarded(listener string, tokens ...string) http.Handler {
	a, err := net.ResolveTCPAddr("tcp", listener)
	if err != nil {
		panic(err)
	}
	return (&admin.Guard{Tokens: tokens, Listener: a}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("in"))
	}))
}

// send sends a request from an address, with a method, after which HTTP/1.0 may follow, a Host, after which a path may follow, and headers
// as "Name: value".
func send(h http.Handler, from, method, host, body string, header ...string) *httptest.ResponseRecorder {
	method, old := strings.CutSuffix(method, " HTTP/1.0")
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	if old {
		r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	}
	host, path, ok := strings.Cut(host, " ")
	if ok {
		r.URL.Path = path
	}
	r.Host, r.RemoteAddr = host, from
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Who may do what, with a token and without.
func TestWhoMayDoWhat(t *testing.T) {
	const here, there, elsewhere, loop, all = "127.0.0.1:5000", "192.0.2.7:5000", "[2001:db8::7]:5000", "127.0.0.1:8640", "0.0.0.0:8640"
	const own, bearer = "Sec-Fetch-Site: same-origin", "Authorization: Bearer " + token
	for _, tt := range []struct {
		name                         string
		tokens                       []string
		listener, from, method, host string
		header                       []string
		want                         int
	}{
		{"this machine", nil, loop, here, "GET", "127.0.0.1:8640", nil, 200},
		{"this machine, by name", nil, loop, here, "GET", "LocalHost:8640", nil, 200},
		{"this machine, IPv6", nil, "[::1]:8640", "[::1]:5000", "GET", "[::1]:8640", nil, 200},
		{"this machine, without a port", nil, "[::1]:80", "[::1]:5000", "GET", "[::1]", nil, 200},
		{"a name that leads here", nil, loop, here, "GET", "evil.example:8640", nil, 403},
		{"a name that looks like this machine", nil, loop, here, "GET", "127.0.0.1.evil.example", nil, 403},
		{"a name that looks like localhost", nil, loop, here, "GET", "localhost.evil.example:8640", nil, 403},
		{"no Host", nil, loop, here, "GET", "", nil, 403},
		{"another machine", nil, loop, there, "GET", "127.0.0.1:8640", nil, 403},
		{"all addresses", nil, all, here, "GET", "127.0.0.1:8640", nil, 403},
		{"through a proxy", nil, loop, here, "GET", "127.0.0.1:8640", []string{"X-Forwarded-For: 192.0.2.7"}, 403},
		{"through a proxy that says whose request it is", nil, loop, here, "GET", "127.0.0.1:8640", []string{"X-Real-IP: 192.0.2.7"}, 403},
		{"through nginx by its defaults", nil, loop, here, "GET HTTP/1.0", "127.0.0.1:8640", nil, 403},
		{"through nginx by its defaults, with a token", []string{token}, loop, here, "GET HTTP/1.0", "127.0.0.1:8640", []string{bearer}, 200},
		{"embedded in a page of another site", nil, loop, here, "GET", "localhost:8640", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403},
		{"by a link from another site", nil, loop, here, "GET", "localhost:8640", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, 200},

		{"write from its own page", nil, loop, here, "POST", "localhost:8640", []string{own}, 200},
		{"write from its own page, in an old browser", nil, loop, here, "POST", "localhost:8640", []string{"Origin: http://localhost:8640"}, 200},
		{"write from another site", nil, loop, here, "POST", "localhost:8640", []string{"Sec-Fetch-Site: cross-site", "Origin: http://evil.example"}, 403},
		{"write from another site, in an old browser", nil, loop, here, "POST", "localhost:8640", []string{"Origin: http://evil.example"}, 403},
		{"write from another port", nil, loop, here, "POST", "localhost:8640", []string{"Sec-Fetch-Site: same-site", "Origin: http://localhost:1"}, 403},
		{"write from nowhere", nil, loop, here, "POST", "localhost:8640", []string{"Origin: null"}, 403},
		{"write without a word of its origin", nil, loop, here, "POST", "localhost:8640", nil, 403},
		{"write from a rebound name", nil, loop, here, "POST", "evil.example:8640", []string{own, "Origin: http://evil.example:8640"}, 403},
		{"a token that nobody asked for", nil, loop, there, "GET", "127.0.0.1:8640", []string{bearer}, 403},

		{"no token", []string{token}, all, there, "GET", "site:8640", nil, 401},
		{"no token, on this machine", []string{token}, loop, here, "GET", "localhost:8640", nil, 401},
		{"token", []string{another, token}, all, there, "GET", "site:8640", []string{bearer}, 200},
		{"token, scheme in lower case", []string{token}, all, there, "GET", "site:8640", []string{"Authorization: bearer " + token}, 200},
		{"token, IPv6", []string{token}, all, elsewhere, "GET", "site:8640", []string{bearer}, 200},
		{"another token", []string{token}, all, there, "GET", "site:8640", []string{"Authorization: Bearer " + another}, 401},
		{"half a token", []string{token}, all, there, "GET", "site:8640", []string{"Authorization: Bearer " + token[:16]}, 401},
		{"empty token", []string{token}, all, there, "GET", "site:8640", []string{"Authorization: Bearer "}, 401},
		{"token as a password", []string{token}, all, there, "GET", "site:8640", []string{"Authorization: Basic " + token}, 401},
		{"token as a cookie", []string{token}, all, there, "GET", "site:8640", []string{"Cookie: token=" + token}, 401},
		{"write by a program", []string{token}, all, there, "POST", "site:8640", []string{bearer}, 200},
		{"write by a script of another site", []string{token}, all, there, "POST", "site:8640", []string{bearer, "Origin: http://evil.example"}, 403},
		{"write without a token", []string{token}, all, there, "POST", "site:8640", []string{own}, 401},
		{"another method", []string{token}, all, there, "DELETE", "site:8640", []string{bearer}, 405},
	} {
		w := send(guarded(tt.listener, tt.tokens...), tt.from, tt.method, tt.host, "", tt.header...)
		if w.Code != tt.want || (w.Body.String() == "in") != (tt.want == 200) {
			t.Errorf("%s: %d, want %d: %s", tt.name, w.Code, tt.want, w.Body)
		}
		for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none';", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
			if got := w.Header().Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s is %q", tt.name, name, got)
			}
		}
		if strings.Contains(w.Body.String(), token) {
			t.Errorf("%s: the response contains the token", tt.name)
		}
	}
}

// A person logs in, comes back, and logs out; the cookie is none of another token, and ends after a week.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const from, own, form = "192.0.2.7:5000", "Sec-Fetch-Site: same-origin", "Content-Type: application/x-www-form-urlencoded"
		h := guarded("0.0.0.0:8640", token, another)
		if w := send(h, from, "GET", "site:8640", "", "Accept: text/html"); w.Code != 401 || !strings.Contains(w.Body.String(), `action="/login"`) {
			t.Errorf("the first page: %d: %s", w.Code, w.Body)
		}
		body := url.Values{"token": {token + "\n"}}.Encode()
		if w := send(h, from, "POST", "site:8640 /login", body, form, "Origin: http://evil.example"); w.Code != 403 || len(w.Result().Cookies()) > 0 {
			t.Errorf("login from another site: %d", w.Code)
		}
		if w := send(h, from, "POST", "site:8640 /login", url.Values{"token": {"guessed"}}.Encode(), form, own); w.Code != 401 || len(w.Result().Cookies()) > 0 {
			t.Errorf("a wrong token: %d", w.Code)
		}
		w := send(h, from, "POST", "site:8640 /login", body, form, own)
		cookies := w.Result().Cookies()
		if w.Code != 303 || w.Header().Get("Location") != "/" || len(cookies) != 1 {
			t.Fatalf("login: %d %v: %s", w.Code, w.Header(), w.Body)
		}
		c := cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || strings.Contains(c.String(), token) {
			t.Errorf("the cookie is %s", c)
		}
		cookie := "Cookie: " + c.Name + "=" + c.Value
		if w := send(h, from, "GET", "site:8640", "", cookie); w.Body.String() != "in" {
			t.Errorf("with the cookie: %d", w.Code)
		}
		if w := send(h, from, "POST", "site:8640", "", cookie, own); w.Body.String() != "in" {
			t.Errorf("write with the cookie: %d", w.Code)
		}
		if w := send(h, from, "POST", "site:8640", "", cookie); w.Code != 403 {
			t.Errorf("write with the cookie, without an origin: %d", w.Code)
		}
		until, signature, _ := strings.Cut(c.Value, ".")
		for name, value := range map[string]string{"a later end": until + "0." + signature, "no signature": until + ".", "no end": "." + signature, "nothing": ""} {
			if w := send(h, from, "GET", "site:8640", "", "Cookie: "+c.Name+"="+value); w.Code != 401 {
				t.Errorf("a cookie with %s: %d", name, w.Code)
			}
		}
		if w := send(guarded("0.0.0.0:8640", another), from, "GET", "site:8640", "", cookie); w.Code != 401 {
			t.Errorf("a cookie of a token that was removed: %d", w.Code)
		}
		if w := send(h, from, "POST", "site:8640 /logout", "", cookie, own); w.Code != 303 || len(w.Result().Cookies()) != 1 || w.Result().Cookies()[0].MaxAge >= 0 {
			t.Errorf("logout: %d %v", w.Code, w.Result().Cookies())
		}
		if w := send(h, from, "POST", "site:8640 /logout", "", own); len(w.Result().Cookies()) > 0 {
			t.Errorf("a stranger gets %v, whose names depend on the tokens", w.Result().Cookies())
		}
		time.Sleep(7*24*time.Hour + time.Second)
		if w := send(h, from, "GET", "site:8640", "", cookie); w.Code != 401 {
			t.Errorf("the cookie after a week: %d", w.Code)
		}
		if w := send(guarded("127.0.0.1:8640"), "127.0.0.1:5000", "POST", "localhost:8640 /login", body, form, own); w.Code != 404 {
			t.Errorf("login where there is no token: %d", w.Code)
		}
	})
}

// Somebody guesses tokens: from one address, five in a second are compared, and no right one after them. Others are not held up.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := guarded("0.0.0.0:8640", token)
		guess := func(from, token string) int {
			return send(h, from, "GET", "site:8640", "", "Authorization: Bearer "+token).Code
		}
		for i := range 8 {
			want := 401
			if i >= 5 {
				want = 429
			}
			if got := guess("[2001:db8::1]:5000", "wrong"); got != want {
				t.Errorf("guess %d: %d, want %d", i+1, got, want)
			}
		}
		if got := guess("[2001:db8::2]:5000", token); got != 429 {
			t.Errorf("the right token from the same network: %d", got)
		}
		if got := guess("192.0.2.7:5000", token); got != 200 {
			t.Errorf("the right token from elsewhere: %d", got)
		}
		time.Sleep(time.Second)
		if got := guess("[2001:db8::2]:5000", token); got != 200 {
			t.Errorf("a second later: %d", got)
		}
	})
}

// A stranger announces a body, and never sends it: that does not keep the connection. A person's scan may take longer than that.
func TestBodyThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t)
		defer d.server.Close()
		defer d.close()
		guard := &admin.Guard{Tokens: []string{token}, Listener: d.Addr()}
		d.server.Handler = guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.ParseForm()
			time.Sleep(time.Minute)
			if err := r.Context().Err(); err != nil {
				t.Errorf("a minute later the request has ended: %v", err)
			}
		}))
		for _, tt := range []struct {
			header, body, want string
			after              time.Duration
		}{
			{"POST / HTTP/1.1\r\n", "", "HTTP/1.1 401 ", 10 * time.Second},
			{"POST /login HTTP/1.1\r\nOrigin: http://site\r\n", "", "HTTP/1.1 401 ", 10 * time.Second},
			{"GET /admin.css HTTP/1.1\r\n", "", "HTTP/1.1 200 ", 10 * time.Second},
			{"POST / HTTP/1.1\r\nAuthorization: Bearer " + token + "\r\n", "a=b", "HTTP/1.1 200 ", time.Minute},
		} {
			ours, theirs := net.Pipe()
			d.accept <- theirs
			begin := time.Now()
			ours.SetDeadline(begin.Add(time.Hour))
			go ours.Write([]byte(tt.header + "Host: site\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\n" + tt.body))
			got := make([]byte, len(tt.want))
			if _, err := io.ReadFull(ours, got); err != nil || string(got) != tt.want || time.Since(begin) > tt.after {
				t.Errorf("%q: %q, %v after %s", tt.header, got, err, time.Since(begin))
			}
			ours.Close()
		}
	})
}
