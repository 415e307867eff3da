package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/inet"
)

// A Guard admits clients to the pages: those with a token, or, if there are no tokens, those on this machine only.
// Its fields must not change once it serves.
type Guard struct {
	// Tokens admit the clients that send one of them, as "Authorization: Bearer TOKEN" or with the login form.
	Tokens []string

	// Listener is the address on which the program listens. Without Tokens, nobody is admitted unless it is a loopback address:
	// on any other, a proxy of this machine could let strangers in.
	Listener net.Addr

	mu     sync.Mutex // guards the rest
	second int64      // the Unix time in which the attempts failed
	failed map[netip.Prefix]int
}

const (
	sessionLength = 7 * 24 * time.Hour // a login is valid that long, unless its token is revoked
	bodyTimeout   = 10 * time.Second   // of a client that is not admitted
	maxFailures   = 5                  // failed attempts from one address in a second
	maxAddresses  = 1000               // addresses with failed attempts in a second; all further ones are refused
)

//go:embed style.css
var styleSheet string

//go:embed live.js
var script string

// icon is two that talk.
const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#0a5cad" d="M3 4h16v11H9l-6 5z"/><path fill="#75808b" d="M13 18h10V9h6v20l-6-5H13z"/></svg>`

// Handler returns h behind the guard, and serves what all pages need: /login, /logout, /admin.css, /admin.js and /admin.svg.
// Requests must have the method GET, HEAD or POST, and all that changes something must be a POST: only a POST is checked for its origin.
func (g *Guard) Handler(h http.Handler) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /admin.css", static("text/css; charset=utf-8", chart.Style()+styleSheet))
	m.HandleFunc("GET /admin.js", static("text/javascript; charset=utf-8", script))
	m.HandleFunc("GET /admin.svg", static("image/svg+xml", icon))
	m.HandleFunc("POST /login", g.login)
	m.HandleFunc("POST /logout", g.logout)
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if g.admits(w, r) {
			http.NewResponseController(w).SetReadDeadline(time.Time{}) // its end would end a request that takes long, too
			h.ServeHTTP(w, r)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // the server reads a body to its end, even one that nobody asked for
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "+
			"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		// Other sites get no Referer. With no-referrer, browsers would send "Origin: null" with the forms of these pages, too.
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodPost:
			m.ServeHTTP(w, r)
		default:
			header.Set("Allow", "GET, HEAD, POST")
			Reply(w, r, http.StatusMethodNotAllowed, "Not allowed", "Only GET, HEAD and POST are served here.")
		}
	})
}

func static(mediaType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Write([]byte(text))
	}
}

// admits reports whether a request may proceed; otherwise it has responded.
func (g *Guard) admits(w http.ResponseWriter, r *http.Request) bool {
	if len(g.Tokens) == 0 {
		if err := g.local(r); err != nil {
			Reply(w, r, http.StatusForbidden, "Not admitted", err.Error())
			return false
		}
		return fromHere(w, r, false)
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return g.try(w, r, strings.TrimSpace(token)) && fromHere(w, r, true)
	}
	if !g.session(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		if wantsHTML(r) {
			showLogin(w)
		} else {
			Reply(w, r, http.StatusUnauthorized, "Not admitted", noToken)
		}
		return false
	}
	return fromHere(w, r, false)
}

const noToken = "send a token of --admin-token as \"Authorization: Bearer TOKEN\""

// proxyHeaders are headers that show that a request came through a proxy; HTTP/1.0, which nginx speaks by default, shows it too.
// A proxy can be set up so that nothing shows it.
var proxyHeaders = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip"}

// local returns why a request does not seem to be one of a person on this machine.
func (g *Guard) local(r *http.Request) error {
	switch {
	case g.Listener == nil || !inet.Loopback(g.Listener.String()) || !inet.Loopback(r.RemoteAddr):
		return errors.New("without --admin-token, this page is served only on a loopback address, such as 127.0.0.1, to clients on the same machine")
	// A site whose name leads to this machine (DNS rebinding) has another host than these.
	case !inet.Loopback(r.Host):
		return errors.New("without --admin-token, the address of this page must begin with 127.0.0.1, [::1] or localhost")
	case !r.ProtoAtLeast(1, 1) || slices.ContainsFunc(proxyHeaders, func(name string) bool { return r.Header[name] != nil }):
		return errors.New("without --admin-token, this page is not served through a proxy")
	}
	return nil
}

// fromHere reports whether a request comes from a page of this server or, with a token in its header, from a program; otherwise it has responded.
// Browsers say with each POST where it comes from: one that does not say so is refused.
func fromHere(w http.ResponseWriter, r *http.Request, bearer bool) bool {
	var err error
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case r.Method == http.MethodPost:
		if err = new(http.CrossOriginProtection).Check(r); err == nil && !bearer && site == "" && r.Header.Get("Origin") == "" {
			err = errors.New("neither Origin nor Sec-Fetch-Site says where it comes from")
		}
	// A link from elsewhere may lead here; embedding is refused, even though the embedding page could not read the response.
	case site == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
		err = errors.New("it is embedded in a page of another site")
	}
	if err != nil {
		Reply(w, r, http.StatusForbidden, "Refused", "This request does not come from a page of this server: "+err.Error()+". A web server in front must pass on the header Host, with its port.")
	}
	return err == nil
}

// try checks a token; if it is wrong, it has responded.
func (g *Guard) try(w http.ResponseWriter, r *http.Request, token string) bool {
	switch g.judge(r.RemoteAddr, token) {
	case http.StatusOK:
		return true
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
		Reply(w, r, http.StatusTooManyRequests, "Too many attempts", "Too many wrong tokens: wait a second, and try again.")
	default:
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		Reply(w, r, http.StatusUnauthorized, "Wrong token", "This is none of the tokens in the file of --admin-token. The file is read when the program starts.")
	}
	return false
}

// judge returns the status for a token from an address: while that has too many failed attempts, no token is compared.
func (g *Guard) judge(address, token string) int {
	var from netip.Prefix
	if a, err := netip.ParseAddrPort(address); err == nil {
		bits := 32
		if a.Addr().Unmap().Is6() {
			bits = 64 // a client has as many
		}
		from, _ = a.Addr().Unmap().Prefix(bits)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now().Unix(); now != g.second || g.failed == nil {
		g.second, g.failed = now, map[netip.Prefix]int{}
	}
	if n, known := g.failed[from]; n >= maxFailures || !known && len(g.failed) >= maxAddresses {
		return http.StatusTooManyRequests
	}
	if g.known(token) {
		return http.StatusOK
	}
	g.failed[from]++
	return http.StatusUnauthorized
}

// known compares a token with all tokens, in a time that says nothing about them.
func (g *Guard) known(token string) bool {
	sum, found := sha256.Sum256([]byte(token)), 0
	for _, t := range g.Tokens {
		want := sha256.Sum256([]byte(t))
		found |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	return found == 1
}

func (g *Guard) login(w http.ResponseWriter, r *http.Request) {
	if len(g.Tokens) == 0 {
		Reply(w, r, http.StatusNotFound, "No login", "There is no --admin-token: on this machine no login is needed, and from elsewhere none is possible.")
		return
	}
	if !fromHere(w, r, false) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	token := strings.TrimSpace(r.PostFormValue("token"))
	if !g.try(w, r, token) {
		return
	}
	until := strconv.FormatInt(time.Now().Add(sessionLength).Unix(), 10)
	http.SetCookie(w, cookie(r, token, until+"."+sign(token, "until "+until), int(sessionLength.Seconds())))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (g *Guard) logout(w http.ResponseWriter, r *http.Request) {
	if !fromHere(w, r, false) {
		return
	}
	for _, t := range g.Tokens {
		// The name of a cookie that the client does not have would let it test guesses of the token by itself.
		if _, err := r.Cookie(cookieName(t)); err == nil {
			http.SetCookie(w, cookie(r, t, "", -1))
		}
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// session reports whether a request has the cookie of a login that is still valid.
func (g *Guard) session(r *http.Request) bool {
	valid := 0
	for _, t := range g.Tokens {
		c, err := r.Cookie(cookieName(t))
		if err != nil {
			continue
		}
		until, signature, _ := strings.Cut(c.Value, ".")
		if at, err := strconv.ParseInt(until, 10, 64); err == nil && time.Now().Unix() < at {
			valid |= subtle.ConstantTimeCompare([]byte(signature), []byte(sign(t, "until "+until)))
		}
	}
	return valid == 1
}

// cookie returns a cookie for those who log in with a token. It proves that they knew the token, and does not contain it.
func cookie(r *http.Request, token, value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: cookieName(token), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"}
}

// cookieName depends on the token, since the ports of a host, where other programs may serve such pages, share their cookies.
func cookieName(token string) string { return "parley-" + sign(token, "name")[:12] }

func sign(token, text string) string {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte("parley admin " + text))
	return hex.EncodeToString(h.Sum(nil))
}
