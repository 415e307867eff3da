package web

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// Parsing of requests, shared by all doors.

// MethodQuery is QUERY of RFC 10008: a GET whose query is in its body.
const MethodQuery = "QUERY"

const (
	formType  = "application/x-www-form-urlencoded"
	formBytes = 64 << 10 // of parameters in a body
)

// single reports whether a parameter may be given only once; some of a filter may be repeated.
func single(name string) bool {
	switch name {
	case "prefix", "match", "type", "op", "lang":
		return false
	}
	return true
}

// Query parses the parameters in the URL of a request.
func Query(r *http.Request, known ...string) (url.Values, *Problem) {
	return parameters(r.URL.RawQuery, known...)
}

// parameters parses a URL query. An unknown parameter is rejected by name: if it
// were ignored, nobody would know why the answer is not as expected.
func parameters(written string, known ...string) (url.Values, *Problem) {
	q, err := url.ParseQuery(written)
	if err != nil {
		return nil, BadParameter("", "the parameters cannot be parsed: "+err.Error())
	}
	for name, v := range q {
		if !slices.Contains(known, name) {
			return nil, BadParameter(name, fmt.Sprintf("unknown parameter %.100q; expected one of %s", name, strings.Join(known, ", ")))
		}
		if len(v) > 1 && single(name) {
			return nil, BadParameter(name, name+" is given more than once")
		}
	}
	return q, nil
}

// Cursor parses the parameter after. Without it the cursor is the zero Cursor.
func Cursor(q url.Values) (protocol.Cursor, *Problem) {
	if !q.Has("after") {
		return protocol.Cursor{}, nil
	}
	c, err := protocol.ParseCursor(q.Get("after"))
	if err != nil {
		return c, BadParameter("after", err.Error())
	}
	return c, nil
}

// Number parses a parameter that is a whole number from least to most.
func Number(q url.Values, name string, least, most, otherwise int) (int, *Problem) {
	if !q.Has(name) {
		return otherwise, nil
	}
	v, err := strconv.Atoi(q.Get(name))
	if err != nil || v < least || v > most {
		return 0, BadParameter(name, fmt.Sprintf("%s must be a whole number from %d to %d", name, least, most))
	}
	return v, nil
}

// Parameters parses the parameters of a request: those in its URL, and of a QUERY
// (RFC 10008) or POST also those in its body, as a form. Its response header
// Accept-Query announces that such a body is accepted.
func Parameters(w http.ResponseWriter, r *http.Request, known ...string) (url.Values, *Problem) {
	w.Header().Set("Accept-Query", `"`+formType+`"`)
	if r.Method != MethodQuery && r.Method != http.MethodPost {
		return Query(r, known...)
	}
	if _, p := BodyType(r.Header, "parameters", formType); p != nil {
		return nil, p
	}
	b, p := ReadBody(w, r, "parameters", formBytes)
	if p != nil {
		return nil, p
	}
	written := string(b)
	if r.URL.RawQuery != "" {
		written = r.URL.RawQuery + "&" + written
	}
	return parameters(written, known...)
}

// BodyType returns the media type of a request's body, which must be one of types.
// what names the content of the body, in the plural, for the error.
func BodyType(h http.Header, what string, types ...string) (string, *Problem) {
	t, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset, coding := params["charset"], h.Get("Content-Encoding")
	if err != nil || !slices.Contains(types, t) || charset != "" && !strings.EqualFold(charset, "utf-8") ||
		coding != "" && !strings.EqualFold(coding, "identity") {
		return "", Plain(http.StatusUnsupportedMediaType, what+" must be sent as "+strings.Join(types, " or ")+", without content coding")
	}
	return t, nil
}

// ReadBody returns the body of a request, of at most most bytes.
func ReadBody(w http.ResponseWriter, r *http.Request, what string, most int64) ([]byte, *Problem) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, &Problem{Type: TypeLimit, Title: "the body is too long", Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("%s may have at most %d bytes per request", what, most)}
	case err != nil:
		return nil, Plain(http.StatusBadRequest, "the body is incomplete")
	}
	return b, nil
}

// EntityTags returns the tags of If-None-Match, each quoted, without the weak prefix: If-None-Match
// compares weakly (a proxy that compresses makes tags weak).
func EntityTags(h http.Header) (tags []string) {
	for _, list := range h.Values("If-None-Match") {
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimPrefix(strings.TrimSpace(t), "W/")
			if len(t) > 1 && t[0] == '"' && t[len(t)-1] == '"' {
				tags = append(tags, t)
			}
		}
	}
	return tags
}

// NoneMatch reports whether If-None-Match names the tag.
func NoneMatch(h http.Header, etag string) bool {
	return strings.TrimSpace(h.Get("If-None-Match")) == "*" || slices.Contains(EntityTags(h), strings.TrimPrefix(etag, "W/"))
}

// HasToken reports whether one of the comma-separated lists holds the token.
func HasToken(lists []string, token string) bool {
	for _, l := range lists {
		for t := range strings.SplitSeq(l, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// EntityTag returns the strong entity tag of a response whose content was hashed.
func EntityTag(h hash.Hash) string { return fmt.Sprintf(`"%x"`, h.Sum(nil)[:16]) }
