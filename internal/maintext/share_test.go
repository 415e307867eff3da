package maintext_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/maintext"
)

func sketch(text string) []byte {
	_, s := maintext.Masks(nil).Read([]byte(text))
	return s
}

func share(t testing.TB, before, after string) float64 {
	t.Helper()
	s, known := maintext.Share(sketch(before), sketch(after))
	if !known {
		t.Fatalf("unknown: %.100q -> %.100q", before, after)
	}
	return s
}

// counted is the share that a count of all words gives.
func counted(before, after []string) float64 {
	count := map[string]int{}
	for _, w := range before {
		count[w]++
	}
	for _, w := range after {
		count[w]--
	}
	differ := 0
	for _, n := range count {
		differ += max(n, -n)
	}
	return float64(differ) / float64(len(before)+len(after))
}

func TestShare(t *testing.T) {
	hundred := numbered("w", 100)
	for _, c := range []struct {
		before, after string
		want          float64
	}{
		{"", "", 0},
		{"one two three", "one two three", 0},
		{"one two three", "", 1},
		{"", "one two three", 1},
		{"one two three four", "one two three five", 0.25},
		{"one", "two", 1},
		{hundred, strings.Replace(hundred, "w50", "other", 1), 0.01},
		{hundred, hundred + " " + numbered("x", 100), 1. / 3},
		{"the cat", "the the the cat", 2. / 6},
		{"世界和平人民", "世界和平天民", 1. / 6}, // a character is a word
		{"สวัสดี", "สวัสดี ครับ", 4. / 16},
		{"a 日b", "日 a b", 1. / 6}, // the same words, the order differs: the least there is
	} {
		if got := share(t, c.before, c.after); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%.40q -> %.40q: %v, want %v", c.before, c.after, got, c.want)
		}
		if got := share(t, c.after, c.before); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%.40q -> %.40q: %v, want %v", c.after, c.before, got, c.want)
		}
	}
}

func numbered(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d ", word, i)
	}
	return strings.TrimSpace(b.String())
}

// Sketches are compared with those of years ago: they must never change
// without a new version.
func TestSketchIsStable(t *testing.T) {
	for text, want := range map[string]string{
		"": "0100e3b0c4420000000000000000000000000000000000",
		"Colorless green ideas sleep furiously.\nThe the the 日本": "010a463d479a00104044000460201300000000000000008000",
	} {
		if got := hex.EncodeToString(sketch(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestInvalidSketches(t *testing.T) {
	good := sketch(numbered("w", 300))
	for name, bad := range map[string][]byte{
		"nothing":            nil,
		"another version":    append([]byte{2}, good[1:]...),
		"cut":                good[:len(good)-1],
		"cut early":          good[:3],
		"more":               append(bytes.Clone(good), 0),
		"counters too large": append(bytes.Clone(good[:7]), bytes.Repeat([]byte{0xff}, 200)...),
		"k too large":        append(append(bytes.Clone(good[:7]), 200), good[8:]...),
	} {
		if s, known := maintext.Share(good, bad); known {
			t.Errorf("%s: share %v", name, s)
		}
		if s, known := maintext.Share(bad, good); known {
			t.Errorf("%s first: share %v", name, s)
		}
		if s, known := maintext.Share(bad, bad); known {
			t.Errorf("%s twice: share %v", name, s)
		}
	}
}

// A writer writes texts with the words of a language: few are frequent.
type writer struct {
	*rand.Rand
	zipf *rand.Zipf
}

func newWriter(seed uint64) *writer {
	r := rand.New(rand.NewPCG(seed, 0))
	return &writer{r, rand.NewZipf(r, 1.1, 4, 30_000)}
}

func (w *writer) words(n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("word%d", w.zipf.Uint64())
	}
	return words
}

// edit returns a text after an edit that a person could make.
func (w *writer) edit(words []string) (string, []string) {
	n := len(words)
	out := append([]string(nil), words...)
	switch at := w.IntN(n); w.IntN(6) {
	case 0:
		out[at] = "edited"
		return "a word", out
	case 1:
		return "a new sentence", append(append(out[:at:at], w.words(1+w.IntN(20))...), words[at:]...)
	case 2:
		return "a paragraph less", append(out[:at:at], words[min(n, at+1+w.IntN(1+n/5)):]...)
	case 3:
		for range 1 + w.IntN(1+n/20) {
			out[w.IntN(n)] = w.words(1)[0]
		}
		return "words here and there", out
	case 4:
		return "another half", append(out[:n/2:n/2], w.words(n-n/2)...)
	default:
		return "another text", w.words(1 + w.IntN(2*n))
	}
}

// Shares equal a count of all words, within the promised
// error.
func TestShareErrorIsBounded(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	type tally struct {
		n, exact, beyond int
		squares, worst   float64
		share            float64
	}
	tallies := map[string]*tally{}
	largest := 0
	for seed := range rounds {
		w := newWriter(uint64(seed))
		before := w.words(10 + int(math.Exp(w.Float64()*7)))
		kind, after := w.edit(before)
		want := counted(before, after)
		if want == 0 {
			continue
		}
		got := share(t, strings.Join(before, " "), strings.Join(after, "\n"))
		largest = max(largest, len(sketch(strings.Join(before, " "))))
		off := math.Abs(got-want) / want
		a := tallies[kind]
		if a == nil {
			a = new(tally)
			tallies[kind] = a
		}
		a.n++
		a.share += want
		a.squares += off * off
		a.worst = max(a.worst, off)
		if off < 1e-9 {
			a.exact++
		}
		if words := float64(len(before) + len(after)); math.Abs(got-want)*words > max(0.4*want*words, 2.5) {
			a.beyond++
		}
		if got <= 0 || got > 1 {
			t.Fatalf("share %v", got)
		}
	}
	t.Logf("%-22s %6s %10s %8s %8s %8s", "edit", "n", "mean share", "exact", "rms", "worst")
	for kind, a := range tallies {
		rms := math.Sqrt(a.squares / float64(a.n))
		t.Logf("%-22s %6d %9.2f%% %7.1f%% %7.1f%% %7.1f%%", kind, a.n, 100*a.share/float64(a.n), 100*float64(a.exact)/float64(a.n), 100*rms, 100*a.worst)
		if rms > 0.15 {
			t.Errorf("%s: the error is %.1f %%", kind, 100*rms)
		}
		if a.beyond > 1+a.n/100 {
			t.Errorf("%s: %d of %d shares are off by more than 40 %% and two words", kind, a.beyond, a.n)
		}
		if kind == "a word" && a.exact*100 < 97*a.n {
			t.Errorf("of %d words that were replaced %d were counted as one", a.n, a.exact)
		}
	}
	if largest > 120 {
		t.Errorf("a sketch of %d bytes", largest)
	}
}

// No input makes a sketch longer than promised, or a comparison fail.
func TestSketchSize(t *testing.T) {
	for name, text := range map[string]string{
		"one word, often":  strings.Repeat("the ", 500_000),
		"different words":  numbered("w", 200_000),
		"Chinese":          strings.Repeat("中文", 100_000),
		"not UTF-8":        strings.Repeat("\xff\xe3 ", 100_000),
		"all on one place": crafted(200),
	} {
		s := sketch(text)
		if len(s) > 219 {
			t.Errorf("%s: %d bytes", name, len(s))
		}
		if got, known := maintext.Share(s, sketch("")); !known || got != 1 {
			t.Errorf("%s: %v, %v beside an empty text", name, got, known)
		}
		if got, known := maintext.Share(s, sketch(text+" more")); !known || got <= 0 || got > 0.01 {
			t.Errorf("%s: %v, %v with a word more", name, got, known)
		}
	}
}

// crafted finds words that all add to one counter.
func crafted(n int) string {
	const head = 6 // version, words and check
	found, like := []string{"v"}, sketch("v")[head:]
	for i := 0; len(found) < n; i++ {
		if w := fmt.Sprint("v", i); bytes.Equal(sketch(w)[head:], like) {
			found = append(found, w)
		}
	}
	return strings.Join(found, " ")
}

func FuzzShare(f *testing.F) {
	f.Add(sketch("one two three"), sketch("one two"))
	f.Add(sketch(""), sketch(numbered("w", 5000)))
	f.Add([]byte{1, 0}, []byte("\x01\xff\xff\xff\xff\x0f\x00\x00\x00\x00\x0b"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s, known := maintext.Share(a, b)
		back, known2 := maintext.Share(b, a)
		if s != back || known != known2 {
			t.Fatalf("%v, %v and back %v, %v", s, known, back, known2)
		}
		if !(s >= 0 && s <= 1) || !known && s != 0 || known && (s == 0) != bytes.Equal(a, b) {
			t.Fatalf("%v, %v", s, known)
		}
		if _, known := maintext.Share(a, sketch("x")); known && len(a) > 260 {
			t.Fatalf("a sketch of %d bytes", len(a))
		}
	})
}

func BenchmarkRead(b *testing.B) {
	w := newWriter(1)
	text := []byte(strings.Join(w.words(2000), " "))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		maintext.Masks(nil).Read(text)
	}
}

// Stored sketches stay comparable: those of the same texts are the same in all versions.
func TestSketchesStay(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	all := sha256.New()
	for _, n := range []int{0, 1, 2, 100, 5000} {
		for _, different := range []int{1, 30, 100_000} {
			var text []byte
			for range n {
				text = fmt.Appendf(text, "word%d ", rng.IntN(different))
			}
			_, sketch := maintext.Masks{}.Read(text)
			all.Write(sketch)
		}
	}
	const want = "0807009ce362216b"
	if got := fmt.Sprintf("%x", all.Sum(nil)[:8]); got != want {
		t.Errorf("sketches of fixed texts have the digest %s instead of %s", got, want)
	}
}
