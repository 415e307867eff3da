package versions

import (
	"strconv"
	"strings"
)

// accept is what an Accept-Encoding field says: how much each coding is liked,
// from 0, not at all, to 1.
type accept map[string]float64

// mostCodings bounds how many codings of a field are looked at.
const mostCodings = 20

func parseAccept(values []string) accept {
	a := make(accept)
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if len(a) >= mostCodings {
				return a
			}
			name, params, _ := strings.Cut(part, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "" {
				continue
			}
			q := 1.0
			if v, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(params, " ", "")), "q="); ok {
				var err error
				if q, err = strconv.ParseFloat(v, 64); err != nil || !(q >= 0 && q <= 1) {
					q = 0
				}
			}
			a[name] = q
		}
	}
	return a
}

// names reports whether a coding is named: "*" does not mean what takes a
// dictionary to read.
func (a accept) names(coding string) bool { return a[coding] > 0 }

func (a accept) q(coding string) float64 {
	if q, ok := a[coding]; ok {
		return q
	}
	if coding == "gzip" {
		if q, ok := a["x-gzip"]; ok {
			return q
		}
	}
	return a["*"]
}

// order returns those of two codings that are taken, what is liked more first,
// and the first of them where both are liked alike. A coding that is liked less
// than the bytes as they are is not taken.
func (a accept) order(first, second string) []string {
	plain, ok := a["identity"]
	if !ok {
		plain = 0 // it is the last choice, unless it is named
	}
	var list []string
	for _, name := range []string{first, second} {
		if q := a.q(name); q > 0 && q >= plain {
			list = append(list, name)
		}
	}
	if len(list) == 2 && a.q(second) > a.q(first) {
		list[0], list[1] = second, first
	}
	return list
}
