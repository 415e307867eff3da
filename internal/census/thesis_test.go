package census_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/census"
)

// Castillo's totals give the averages that follow from them, which Table 8.1 does not print (E25): 66.88, 44.24 and 22.64 pages of a site
// for 67.13, 40.40 and 26.73. The shares of Tables 8.1 and 8.3 are as printed, and the sites in the components of Table 8.5 are those of
// Table 8.3 that have a link to or from another.
func TestTotalsOfTheThesis(t *testing.T) {
	const sites, either = 49_535, 23_499
	summary := &census.Census{Tables: []census.Table{census.Averages(2_191_522, 1_121_538, 3_110_205, 202_855, sites)}}
	for name, want := range map[string]string{"pages of a site": "66.88", "static pages of a site": "44.24", "dynamic pages of a site": "22.64",
		"share of dynamic pages": "0.34", "share of duplicates": "0.06"} {
		if got := fmt.Sprintf("%.2f", figure(t, summary, name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got, want := text(census.SiteFigures(sites, 17_738, 13_820, either)), "sites 49535 1\nwith a link from another site 17738 0.35809\n"+
		"with a link to another site 13820 0.278995\nwith either 23499 0.474392\n"; got != want { // 36, 28 and 47 %
		t.Errorf("Table 8.3: %s", got)
	}

	var sizes []uint32
	for size, n := range map[uint32]int{1: 17_393 + sites - either, 2: 283, 3: 54, 4: 20, 5: 4, 6: 3, 7: 2, 8: 2, 9: 2, 10: 1, 5202: 1} {
		for range n {
			sizes = append(sizes, size)
		}
	}
	table := census.Components(sizes, sites-either)
	if got, want := text(table), "1 17393\n2 283\n3 54\n4 20\n5 4\n6 3\n7 2\n8 2\n9 2\n10 1\n5202 1\n"; got != want {
		t.Errorf("Table 8.5: %s", got)
	}
	var sum int64
	for _, row := range table.Rows {
		sum += row[0].(int64) * row[1].(int64)
	}
	if giant := 5202.0 / sites; sum != either || math.Abs(giant-.1050) > .00005 {
		t.Errorf("the components have %d sites, want %d; the largest has %.4f of all", sum, either, giant)
	}
}

func TestClasses(t *testing.T) {
	last := int64(-1)
	for n := int64(0); n < 300_000; n++ {
		from, to := census.ClassOf(n)
		if n > to || n < from {
			t.Fatalf("%d is in the class from %d to %d", n, from, to)
		}
		if n == from && from != last+1 {
			t.Fatalf("the class from %d follows one to %d", from, last)
		}
		if n == to {
			last = to
		}
	}
	for n, want := range map[int64]int64{9: 9, 10: 10, 12: 10, 13: 13, 999: 794, 1000: 1000, 1258: 1000, 1259: 1259, 1e12: 1e12, math.MaxInt64: 7_943_282_347_000_000_000} {
		if from, to := census.ClassOf(n); from != want || to < n {
			t.Errorf("%d is in the class from %d to %d, want from %d", n, from, to, want)
		}
	}
}

// Whole parts of numbers that are distributed exponentially give their rate, and others lie farther from the law.
func TestExponential(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values, even := map[int]int64{}, map[int]int64{}
	for range 100_000 {
		values[int(rng.ExpFloat64()/.07)]++
		even[rng.IntN(20)]++
	}
	rate, n, distance := census.Exponential(values)
	if math.Abs(rate-.07) > .001 || n != 100_000 || distance > .01 {
		t.Errorf("rate %v of %d values, distance %v; want .07", rate, n, distance)
	}
	if _, _, distance := census.Exponential(even); distance < .1 {
		t.Errorf("numbers that are all as frequent have the distance %v", distance)
	}
	if _, n, _ := census.Exponential(nil); n != 0 {
		t.Errorf("%d of no values", n)
	}
}

func TestTopShare(t *testing.T) {
	if got := census.TopShare([]int64{1, 1, 1, 1, 1, 91, 1, 1, 1, 1}); got != .91 {
		t.Errorf("one of ten has %v, want .91", got)
	}
	if got := census.TopShare([]int64{3, 1}); got != .75 { // a tenth of two sites is one
		t.Errorf("one of two has %v, want .75", got)
	}
}

func TestLanguageOf(t *testing.T) {
	for want, text := range map[string]string{
		"en":      "The quick brown fox is in the garden of the house that it likes.",
		"de":      "Der Hund ist nicht in dem Haus, und die Katze schläft mit den Kindern.",
		"es":      "El perro está en la casa que los niños tienen para una fiesta con el gato.",
		"fr":      "Le chien est dans la maison que les enfants ont pour une fête et le chat.",
		"ja":      "このモジュールは、サーバの設定を変更するためのものです。 Options Indexes FollowSymLinks",
		"ko":      "이 모듈은 서버의 설정을 변경하는 데 사용됩니다.",
		"zh":      "本模块用于更改服务器的配置。",
		"ru":      "Этот модуль не входит в состав сервера, и на нём не следует что-либо строить.",
		"tr":      "Bu modül bir sunucu için ve çok kullanışlı olarak ayarlanır.",
		"unknown": "git-add git-commit git-push 1 2 3",
	} {
		if got := census.LanguageOf(text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	if got := census.LanguageOf("\xff\xfe\x00"); got != "unknown" {
		t.Errorf("bytes that are no text are %s", got)
	}
}

func TestExtensionOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://a.example/": "", "https://a.example/x.PHP?a=b.c": "php", "https://a.example/x.tar.gz": "gz", "https://a.example/a.b/c": "",
		"https://a.example": "", "https://a.example/.hidden": "hidden", "https://a.example/x.": "", "https://a.example/x.toolongforone": "",
		"https://a.example/x.a-b": "", "https://a.example/x?y=/z.php": "",
	} {
		if got := census.ExtensionOf(url); got != want {
			t.Errorf("%s has %q, want %q", url, got, want)
		}
	}
}
