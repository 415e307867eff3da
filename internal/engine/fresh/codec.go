package fresh

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// Append appends the encoded belief: 9 bytes, and 5 for each length of interval with undated changes.
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

// ParseBelief decodes what Append wrote at the beginning of p, and returns its size in bytes; 0 if p is
// malformed.
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

// readAmount decodes a number; a negative, infinite or NaN one is 0.
func readAmount(p []byte) float32 {
	f := math.Float32frombits(binary.BigEndian.Uint32(p))
	if f >= 0 && f <= math.MaxFloat32 {
		return f
	}
	return 0
}

const (
	siteVersion   = 2
	farthestMilli = 253_402_300_800_000 // the year 10,000
)

// amounts are the non-negative fields of a signal.
func (s *Signal) amounts() [14]*float32 {
	return [...]*float32{&s.Right, &s.Wrong, &s.Heard, &s.Missed, &s.Due, &s.Silent, &s.Lag, &s.Lags,
		&s.Numbers.Told, &s.Numbers.Lost, &s.Turn.Right, &s.Turn.Wrong, &s.Flood.Notices, &s.Flood.Days}
}

// Append appends the encoded beliefs about a site.
func (s *Site) Append(b []byte) []byte {
	b = append(b, siteVersion)
	for _, f := range s.Prior {
		b = appendFloat(b, f)
	}
	signal := s.Signal
	for _, f := range signal.amounts() {
		b = appendFloat(b, *f)
	}
	b = appendFloat(appendFloat(b, signal.Flood.Odds), float32(s.Extra))
	flags := byte(0)
	if signal.Numbers.Sure {
		flags |= 1
	}
	if s.Tells {
		flags |= 2
	}
	if s.Manifest.Planned {
		flags |= 4
	}
	b = append(b, flags)
	if s.Manifest == (Manifest{}) && s.Predictions == (Predictions{}) && s.Audits == nil {
		return b
	}
	var read int64
	if !s.Manifest.Read.IsZero() {
		read = s.Manifest.Read.UnixMilli()
	}
	b = binary.BigEndian.AppendUint64(appendFloat(b, float32(s.Manifest.Recall)), uint64(read))
	if s.Predictions == (Predictions{}) && s.Audits == nil {
		return b
	}
	b = appendFloat(appendFloat(b, s.Predictions.Right), s.Predictions.Wrong)
	if s.Audits != nil {
		for i, u := range s.Audits {
			if u != (untold{}) {
				b = append(b, byte(i))
				for _, share := range u {
					b = appendFloat(b, share)
				}
			}
		}
	}
	return b
}

// ParseSite decodes what [Site.Append] wrote.
func ParseSite(b []byte) (s Site, err error) {
	const size, manifest, predictions, audit = 1 + 4*points + 4*16 + 1, 4 + 8, 4 + 4, 1 + 4*len(untoldShares)
	if n := len(b) - size; n != 0 && n != manifest && (n < manifest+predictions || (n-manifest-predictions)%audit != 0) || b[0] != siteVersion {
		return Site{}, errors.New("read beliefs of site: malformed")
	}
	b = b[1:]
	next := func() []byte {
		f := b[:4]
		b = b[4:]
		return f
	}
	for k := range s.Prior {
		s.Prior[k] = readAmount(next())
	}
	for _, f := range s.Signal.amounts() {
		*f = readAmount(next())
	}
	s.Signal.Flood.Odds = between(math.Float32frombits(binary.BigEndian.Uint32(next())), -mostFlood, mostFlood)
	s.Extra = float64(readAmount(next()))
	s.Signal.Numbers.Sure, s.Tells, s.Manifest.Planned = b[0]&1 != 0, b[0]&2 != 0, b[0]&4 != 0
	if b = b[1:]; len(b) >= manifest {
		s.Manifest.Recall = bounded(float64(readAmount(next())), mostFew)
		if read := int64(binary.BigEndian.Uint64(b)); read > 0 && read < farthestMilli {
			s.Manifest.Read = time.UnixMilli(read).UTC()
		}
		if b = b[8:]; len(b) >= predictions {
			s.Predictions.Right, s.Predictions.Wrong = readAmount(next()), readAmount(next())
		}
		if len(b) > 0 {
			s.Audits = new(Audits)
		}
		for len(b) > 0 {
			u := &s.Audits[int(b[0])%len(s.Audits)]
			b = b[1:]
			for k := range u {
				u[k] = min(readAmount(next()), 1)
			}
		}
	}
	s.limitRecall()
	return s, nil
}

// between limits a number to a range; NaN becomes 0.
func between(f, low, high float32) float32 {
	if f != f {
		return 0
	}
	return min(max(f, low), high)
}
