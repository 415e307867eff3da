package coding

import (
	"strconv"
	"strings"
)

// An Accept is a parsed Accept-Encoding: the weight of each coding, from 0, not acceptable, to 1. Names are
// in lower case.
type Accept map[string]float64

// mostCodings bounds how many codings of a header are read.
const mostCodings = 20

// ParseAccept parses the values of a header. A weight that cannot be parsed is 0.
func ParseAccept(values []string) Accept {
	a := make(Accept)
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

// Names reports whether a coding is named and acceptable: "*" does not include codings that need a
// dictionary.
func (a Accept) Names(coding string) bool { return a[coding] > 0 }

// Order returns those of two codings that may be used, the one with the higher weight first, and the first of
// them if both weigh the same. One that weighs less than the uncoded bytes is not used.
func (a Accept) Order(first, second string) []string {
	plain := a["identity"] // the last choice, unless named
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

func (a Accept) q(coding string) float64 {
	if q, ok := a[coding]; ok {
		return q
	}
	if q, ok := a["x-gzip"]; ok && coding == "gzip" {
		return q
	}
	return a["*"]
}
