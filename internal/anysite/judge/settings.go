package judge

import (
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// option returns the value of an option, or otherwise if the program does not know it or the recording has no
// value.
func option(p record.Program, name, otherwise string) string {
	if v, ok := p.Options[name]; ok && v != "" {
		return v
	}
	return otherwise
}

// duration reads 250ms, 1h30m, 7d and 0.
func duration(p record.Program, name string, otherwise time.Duration) time.Duration {
	v := option(p, name, "")
	if v == "" {
		return otherwise
	}
	if n, ok := strings.CutSuffix(v, "d"); ok {
		if f, err := strconv.ParseFloat(n, 64); err == nil {
			return time.Duration(f * float64(24*time.Hour))
		}
	}
	if d, err := time.ParseDuration(v); err == nil {
		return d
	}
	if f, err := strconv.ParseFloat(v, 64); err == nil {
		return time.Duration(f * float64(time.Second))
	}
	return otherwise
}

// size reads 400KB, 1GiB, 2.5MB and plain bytes.
func size(p record.Program, name string, otherwise int64) int64 {
	v := option(p, name, "")
	i := strings.IndexFunc(v, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
	if i < 0 {
		i = len(v)
	}
	f, err := strconv.ParseFloat(v[:i], 64)
	if err != nil {
		return otherwise
	}
	unit, ok := map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}[strings.ToUpper(strings.TrimSpace(v[i:]))]
	if !ok {
		return otherwise
	}
	return int64(f * unit)
}

func number(p record.Program, name string, otherwise float64) float64 {
	v, err := strconv.ParseFloat(option(p, name, ""), 64)
	if err != nil {
		return otherwise
	}
	return v
}

func isSet(p record.Program, name string) bool { return option(p, name, "false") == "true" }

// listed returns the values of a repeatable option.
func listed(p record.Program, name string) []string {
	return strings.FieldsFunc(option(p, name, ""), func(c rune) bool { return c == '\n' })
}

// delay returns a wait of the program itself, which --hurry caps.
func delay(p record.Program, name string, otherwise time.Duration) time.Duration {
	d := duration(p, name, otherwise)
	if h := duration(p, "hurry", 0); h > 0 {
		d = min(d, h)
	}
	return d
}
