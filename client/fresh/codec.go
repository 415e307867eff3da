package fresh

import (
	"encoding/binary"
	"errors"
	"math"
)

// Append writes a belief, in 9 bytes and 5 for each length of interval that
// brought undated changes.
func (b *Belief) Append(to []byte) []byte {
	to = appendFloat(appendFloat(to, b.Quiet), b.Dated)
	n := len(to)
	to = append(to, 0)
	for i, seen := range b.Seen {
		if seen > 0 {
			to = appendFloat(append(to, byte(i)), seen)
			to[n]++
		}
	}
	return to
}

// ParseBelief reads what Append wrote at the beginning of p, and returns how many
// bytes that is; 0 if it is none.
func ParseBelief(p []byte) (b Belief, size int) {
	if len(p) < 9 || int(p[8]) > spans || len(p) < 9+5*int(p[8]) {
		return Belief{}, 0
	}
	b.Quiet, b.Dated = readAmount(p), readAmount(p[4:])
	size = 9 + 5*int(p[8])
	for s := p[9:size]; len(s) > 0; s = s[5:] {
		if s[0] >= spans {
			return Belief{}, 0
		}
		b.Seen[s[0]] = readAmount(s[1:])
	}
	return b, size
}

func appendFloat(b []byte, f float32) []byte {
	return binary.BigEndian.AppendUint32(b, math.Float32bits(f))
}

// readAmount reads a number that is 0 or more.
func readAmount(p []byte) float32 {
	f := math.Float32frombits(binary.BigEndian.Uint32(p))
	if f >= 0 && f <= math.MaxFloat32 {
		return f
	}
	return 0
}

const siteVersion = 1

// Append writes what is believed of a site.
func (s *Site) Append(b []byte) []byte {
	b = append(b, siteVersion)
	for _, f := range s.Prior {
		b = appendFloat(b, f)
	}
	flags := byte(0)
	if s.Signal.Sure {
		flags |= 1
	}
	if s.Tells {
		flags |= 2
	}
	for _, f := range []float32{s.Signal.Right, s.Signal.Wrong, s.Signal.Heard, s.Signal.Missed, s.Signal.Lag, float32(s.Extra)} {
		b = appendFloat(b, f)
	}
	return append(b, flags)
}

// ParseSite reads what Append wrote.
func ParseSite(b []byte) (s Site, err error) {
	const size = 1 + 4*Points + 4*6 + 1
	if len(b) != size || b[0] != siteVersion {
		return Site{}, errors.New("read beliefs of site: malformed")
	}
	for k := range s.Prior {
		s.Prior[k] = readAmount(b[1+4*k:])
	}
	b = b[1+4*Points:]
	next := func() float32 {
		f := readAmount(b)
		b = b[4:]
		return f
	}
	s.Signal = Signal{Right: next(), Wrong: next(), Heard: next(), Missed: next(), Lag: next()}
	s.Extra = float64(next())
	s.Signal.Sure, s.Tells = b[0]&1 != 0, b[0]&2 != 0
	return s, nil
}
