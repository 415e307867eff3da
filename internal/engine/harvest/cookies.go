package harvest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Cookie is sent with the requests for pages that it is for, and with no others. Those that sites set are not used.
type Cookie struct {
	domain  string // in lower case
	below   bool   // for hosts below domain, too
	path    string
	secure  bool      // for https only
	expires time.Time // zero: never
	pair    string    // "name=value"
}

// maxCookies bounds a file of cookies, in bytes.
const maxCookies = 16 << 20

// ReadCookies reads a file in the format of Netscape's cookies.txt, as browsers' extensions and curl write it. An error names the line,
// and does not repeat what is in it. No file, no cookies.
func ReadCookies(file string) (list []Cookie, err error) {
	if file == "" {
		return nil, nil
	}
	st, err := os.Stat(file)
	if err == nil && st.Size() > maxCookies {
		err = fmt.Errorf("%s has more than %d bytes", file, maxCookies)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		line, ofHTTP := strings.CutPrefix(line, "#HttpOnly_")
		if strings.TrimSpace(line) == "" || line[0] == '#' && !ofHTTP {
			continue
		}
		c, err := parseCookie(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no cookies", file)
	}
	return list, nil
}

func parseCookie(line string) (c Cookie, err error) {
	f := strings.Split(line, "\t")
	if len(f) != 7 {
		return c, fmt.Errorf("%d fields, want 7 with tabs between them: domain, TRUE or FALSE for hosts below it, path, TRUE or FALSE for https only, expiry, name, value", len(f))
	}
	c.domain, c.path, c.pair = plainName(strings.TrimPrefix(f[0], ".")), f[2], f[5]+"="+f[6]
	below, err1 := flagOf(f[1], "second")
	secure, err2 := flagOf(f[3], "fourth")
	seconds, err := strconv.ParseFloat(f[4], 64)
	switch {
	case c.domain == "" || strings.ContainsAny(c.domain, "/: "):
		return c, errors.New("the first field is not a host name")
	case err1 != nil || err2 != nil:
		return c, cmp.Or(err1, err2)
	case !strings.HasPrefix(c.path, "/"):
		return c, errors.New("the third field is not a path: want one that begins with /")
	case err != nil || !(seconds >= -1 && seconds < 1e12):
		return c, errors.New("the fifth field is not a time: want seconds since 1970, or 0 for a session")
	case f[5] == "" || strings.ContainsFunc(c.pair, func(r rune) bool { return r < ' ' || r == 0x7f || r == ';' }) || strings.ContainsAny(f[5], "= "):
		return c, errors.New("the name or the value has characters that a cookie cannot have")
	}
	_, address := netip.ParseAddr(c.domain)
	c.below, c.secure = below && address != nil && strings.Contains(c.domain, "."), secure
	if seconds > 0 {
		c.expires = time.Unix(int64(seconds), 0)
	}
	return c, nil
}

func flagOf(field, which string) (bool, error) {
	switch strings.ToUpper(field) {
	case "TRUE":
		return true, nil
	case "FALSE":
		return false, nil
	}
	return false, fmt.Errorf("the %s field is neither TRUE nor FALSE", which)
}

// Authorizes reports whether a request for the page at a URL has cookies or the client certificate.
func (h *Harvester) Authorizes(to string) bool {
	u, err := url.Parse(to)
	certified := err == nil && h.Options.Cert != nil && u.Scheme == "https" && plainName(u.Hostname()) == plainName(h.Options.CertHost)
	return certified || cookiesFor(h.Options.Cookies, to, time.Now()) != ""
}

// cookiesFor returns the value of the header Cookie for a URL, empty if no cookie is for it (RFC 6265, section 5.4).
func cookiesFor(list []Cookie, to string, now time.Time) string {
	if len(list) == 0 {
		return ""
	}
	u, err := url.Parse(to)
	if err != nil {
		return ""
	}
	var own []*Cookie
	for i := range list {
		if c := &list[i]; c.isFor(plainName(u.Hostname()), u.EscapedPath(), u.Scheme == "https") && (c.expires.IsZero() || c.expires.After(now)) {
			own = append(own, c)
		}
	}
	slices.SortStableFunc(own, func(a, b *Cookie) int { return cmp.Compare(len(b.path), len(a.path)) })
	var pairs []string
	for _, c := range own {
		pairs = append(pairs, c.pair)
	}
	return strings.Join(pairs, "; ")
}

func (c *Cookie) isFor(host, path string, secure bool) bool {
	rest, ok := strings.CutPrefix(path, c.path)
	inPath := ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(c.path, "/"))
	return inPath && (secure || !c.secure) && (host == c.domain || c.below && strings.HasSuffix(host, "."+c.domain))
}

// withCookie returns a request by HTTP/1 with a header Cookie, and does not change the request without it, which may be archived.
func withCookie(request []byte, cookie string) []byte {
	if cookie == "" {
		return request
	}
	header := request[:len(request)-len("\r\n")]
	return append(header[:len(header):len(header)], "Cookie: "+cookie+"\r\n\r\n"...)
}
