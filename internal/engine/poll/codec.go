package poll

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// maxRecord limits the size of an encoded record, in bytes.
const maxRecord = 800

const recordVersion = 1

// mostCount limits the counts that are decoded.
const mostCount = 1e12

// Times are stored as seconds since epoch, which stands for the zero time, up to latest.
var (
	epoch  = time.Time{}
	latest = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Append appends the encoded record.
func (r *Record) Append(b []byte) []byte {
	b = append(b, recordVersion)
	for _, t := range []time.Time{r.First, r.Last, r.from} {
		b = binary.AppendUvarint(b, uint64(max(0, t.Unix()-epoch.Unix())))
	}
	for _, n := range []int{r.Polls, r.Fruitful, r.Window, r.Training.ToE, r.shared} {
		b = binary.AppendUvarint(b, uint64(max(0, n)))
	}
	for _, x := range []float64{r.Training.M, r.Training.T} {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
	}
	b = binary.BigEndian.AppendUint32(b, math.Float32bits(r.lately))
	for _, s := range r.share {
		b = append(b, byte(s))
	}
	at := len(b)
	b = append(b, make([]byte, Hours/8)...) // bitmap of the hours with a count
	for h, c := range r.count {
		if c > 0 {
			b[at+h/8] |= 1 << (h % 8)
			b = binary.BigEndian.AppendUint32(b, math.Float32bits(c))
		}
	}
	return b
}

// ParseRecord decodes what [Record.Append] wrote.
func ParseRecord(b []byte) (Record, error) {
	bad := errors.New("read record of polls: malformed")
	if len(b) == 0 || b[0] != recordVersion || len(b) > maxRecord {
		return Record{}, bad
	}
	b = b[1:]
	var r Record
	ok := true
	uint := func(limit int64) int64 {
		x, n := binary.Uvarint(b)
		if n <= 0 || x > uint64(limit) {
			ok = false
			return 0
		}
		b = b[n:]
		return int64(x)
	}
	for _, t := range []*time.Time{&r.First, &r.Last, &r.from} {
		*t = time.Unix(uint(latest.Unix()-epoch.Unix())+epoch.Unix(), 0).UTC()
	}
	for _, n := range []*int{&r.Polls, &r.Fruitful, &r.Window, &r.Training.ToE, &r.shared} {
		*n = int(uint(math.MaxInt32))
	}
	if !ok || len(b) < 20+len(r.share)+Hours/8 {
		return Record{}, bad
	}
	r.Training.M = math.Float64frombits(binary.BigEndian.Uint64(b))
	r.Training.T = math.Float64frombits(binary.BigEndian.Uint64(b[8:]))
	r.lately = math.Float32frombits(binary.BigEndian.Uint32(b[16:]))
	b = b[20:]
	for i := range r.share {
		r.share[i] = int8(b[i])
	}
	have := b[len(r.share):][:Hours/8]
	b = b[len(r.share)+Hours/8:]
	for h := range r.count {
		if have[h/8]&(1<<(h%8)) == 0 {
			continue
		}
		if len(b) < 4 {
			return Record{}, bad
		}
		c := math.Float32frombits(binary.BigEndian.Uint32(b))
		if !(c > 0 && c < mostCount) {
			return Record{}, bad
		}
		r.count[h], b = c, b[4:]
	}
	switch {
	case !(r.lately >= 0 && r.lately < mostCount):
		return Record{}, bad
	case len(b) > 0, r.Window > maxWindow, r.Fruitful > r.Polls, r.Last.Before(r.First), r.Last.Before(r.from),
		r.Polls > 0 && r.Training != r.Training.clean(), r.Polls == 0 && r != (Record{}), r.shared > 1000:
		return Record{}, bad
	}
	return r, nil
}
