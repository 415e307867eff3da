package protocol

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// A bundle has a message for each of its changes, thousands of them, and almost
// all are flat: strings without escapes, and whole numbers. What is here
// writes and reads those as encoding/json does, without looking at types; of
// any other it says so, and encoding/json is asked.

// appendEv appends what encoding/json makes of w, or returns false.
func appendEv(b []byte, w *wireEv) ([]byte, bool) {
	if w.Sig != nil || w.Imp != nil || w.Body != nil || w.To == nil {
		return b, false
	}
	quick := true
	put := func(name, s string) {
		quick = quick && isQuick(s)
		b = append(append(append(b, name...), '"'), s...)
		b = append(b, '"')
	}
	some := func(name, s string) {
		if s != "" {
			put(name, s)
		}
	}
	put(`{"t":`, string(w.T))
	if w.After != nil {
		put(`,"after":`, w.After.String())
	}
	put(`,"to":`, w.To.String())
	b = strconv.AppendUint(append(b, `,"seq":`...), w.Seq, 10)
	some(`,"at":`, w.At)
	put(`,"op":`, string(w.Op))
	put(`,"url":`, w.URL)
	some(`,"from":`, w.From)
	some(`,"mod":`, w.Mod)
	if w.Len != nil {
		b = strconv.AppendInt(append(b, `,"len":`...), *w.Len, 10)
	}
	some(`,"type":`, w.Type)
	some(`,"hash":`, w.Hash)
	some(`,"prev":`, w.Prev)
	some(`,"text":`, w.Text)
	some(`,"lang":`, w.Lang)
	some(`,"canonical":`, w.Canonical)
	return append(b, '}'), quick
}

// isQuick reports whether a string is itself in JSON.
func isQuick(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// readEv reads what encoding/json would read of b into an empty w. If it
// returns false, w is of no use.
func readEv(b []byte, w *wireEv) bool {
	if len(b) < 2 || b[0] != '{' {
		return false
	}
	seen := 0
	for b = b[1:]; ; {
		name, rest, ok := quickString(b)
		if !ok || len(rest) < 2 || rest[0] != ':' {
			return false
		}
		b = rest[1:]
		var text *string
		bit := 0
		switch string(name) {
		case "t":
			text, bit = (*string)(&w.T), 0
		case "op":
			text, bit = (*string)(&w.Op), 1
		case "at":
			text, bit = &w.At, 2
		case "url":
			text, bit = &w.URL, 3
		case "from":
			text, bit = &w.From, 4
		case "mod":
			text, bit = &w.Mod, 5
		case "type":
			text, bit = &w.Type, 6
		case "hash":
			text, bit = &w.Hash, 7
		case "prev":
			text, bit = &w.Prev, 8
		case "text":
			text, bit = &w.Text, 9
		case "lang":
			text, bit = &w.Lang, 10
		case "canonical":
			text, bit = &w.Canonical, 11
		case "to":
			bit = 12
		case "after":
			bit = 13
		case "seq":
			bit = 14
		case "len":
			bit = 15
		default:
			return false // another case of letters may be meant
		}
		if seen&(1<<bit) != 0 {
			return false
		}
		seen |= 1 << bit
		if bit <= 13 {
			s, rest, ok := quickString(b)
			if !ok {
				return false
			}
			if b = rest; text != nil {
				*text = string(s)
			} else {
				c := new(Cursor)
				if c.UnmarshalText(s) != nil {
					return false
				}
				if bit == 12 {
					w.To = c
				} else {
					w.After = c
				}
			}
		} else {
			n := 0
			for n < len(b) && n < 18 && b[n] >= '0' && b[n] <= '9' {
				n++
			}
			v, err := strconv.ParseUint(string(b[:n]), 10, 63)
			if err != nil || n > 1 && b[0] == '0' {
				return false
			}
			if b = b[n:]; bit == 14 {
				w.Seq = v
			} else {
				length := int64(v)
				w.Len = &length
			}
		}
		switch {
		case len(b) == 1 && b[0] == '}':
			return true
		case len(b) > 1 && b[0] == ',':
			b = b[1:]
		default:
			return false // white space, another number
		}
	}
}

// quickString reads a string that is itself in JSON.
func quickString(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return nil, nil, false
	}
	b = b[1:]
	n := bytes.IndexByte(b, '"')
	if n < 0 {
		return nil, nil, false
	}
	for _, c := range b[:n] {
		if c < ' ' || c > '~' || c == '\\' {
			return nil, nil, false
		}
	}
	return b[:n], b[n+1:], true
}

// unmarshalEv reads a message of kind Ev.
func unmarshalEv(b []byte) (wireEv, error) {
	var w wireEv
	if readEv(b, &w) {
		return w, nil
	}
	w = wireEv{}
	return w, json.Unmarshal(b, &w)
}
