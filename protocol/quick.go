package protocol

import "strconv"

// A bundle has an Ev message for each of its changes, thousands of them, and almost
// all are flat: strings without escapes, and whole numbers, in one order. A quick
// encodes and decodes those as encoding/json does, without reflection. For any
// other message it reports false, and the caller uses encoding/json.
type fastCodec struct {
	b       []byte // the output so far, or the rest of the input
	reading bool
	odd     bool // the message needs encoding/json
}

// ev encodes w, or decodes the input into an empty w, and reports whether the
// result is that of encoding/json.
func (q *fastCodec) ev(w *wireEv) bool {
	q.text(`{"t":`, (*string)(&w.T))
	q.cursor(`,"after":`, &w.After)
	q.cursor(`,"to":`, &w.To)
	q.number(`,"seq":`, &w.Seq)
	q.some(`,"at":`, &w.At)
	q.text(`,"op":`, (*string)(&w.Op))
	q.text(`,"url":`, &w.URL)
	q.some(`,"from":`, &w.From)
	q.some(`,"mod":`, &w.Mod)
	if q.reading && q.next(`,"len":`) {
		w.Len = new(int64)
	}
	if w.Len != nil {
		n := uint64(*w.Len)
		q.number(`,"len":`, &n)
		*w.Len = int64(n)
	}
	q.some(`,"type":`, &w.Type)
	q.some(`,"hash":`, &w.Hash)
	q.some(`,"prev":`, &w.Prev)
	q.some(`,"text":`, &w.Text)
	q.some(`,"lang":`, &w.Lang)
	q.some(`,"canonical":`, &w.Canonical)
	if q.reading {
		return !q.odd && string(q.b) == "}"
	}
	q.b = append(q.b, '}')
	return !q.odd && w.To != nil && w.Sig == nil && w.Imp == nil && w.Body == nil
}

// next reports whether the input continues with the member name.
func (q *fastCodec) next(name string) bool {
	return len(q.b) > len(name) && string(q.b[:len(name)]) == name
}

func (q *fastCodec) text(name string, s *string) {
	if !q.reading {
		q.odd = q.odd || !isQuick(*s)
		q.b = append(append(append(append(q.b, name...), '"'), *s...), '"')
		return
	}
	if q.odd = q.odd || !q.next(name) || q.b[len(name)] != '"'; q.odd {
		return
	}
	for i := len(name) + 1; i < len(q.b); i++ {
		if q.b[i] == '"' {
			*s, q.b = string(q.b[len(name)+1:i]), q.b[i+1:]
			q.odd = !isQuick(*s)
			return
		}
	}
	q.odd = true
}

// some is text for an optional member.
func (q *fastCodec) some(name string, s *string) {
	if q.reading && q.next(name) || !q.reading && *s != "" {
		q.text(name, s)
	}
}

func (q *fastCodec) cursor(name string, c **Cursor) {
	if q.reading && !q.next(name) || !q.reading && *c == nil {
		return
	}
	if q.reading {
		*c = new(Cursor)
	}
	s := (*c).String()
	q.text(name, &s)
	if q.reading && !q.odd {
		q.odd = (*c).UnmarshalText([]byte(s)) != nil
	}
}

// number allows at most 18 digits, so that the value fits in an int64.
func (q *fastCodec) number(name string, n *uint64) {
	const most = 18
	if !q.reading {
		at := len(q.b) + len(name)
		q.b = strconv.AppendUint(append(q.b, name...), *n, 10)
		q.odd = q.odd || len(q.b)-at > most
		return
	}
	if q.odd = q.odd || !q.next(name); q.odd {
		return
	}
	b, digits := q.b[len(name):], 0
	for *n = 0; digits < len(b) && '0' <= b[digits] && b[digits] <= '9'; digits++ {
		*n = *n*10 + uint64(b[digits]-'0')
	}
	q.b = b[digits:]
	q.odd = digits == 0 || digits > most || digits > 1 && b[0] == '0'
}

// isQuick reports whether a string needs no escaping in JSON.
func isQuick(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
