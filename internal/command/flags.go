package command

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Flag is an option of a Command, bound to the variable that it sets.
type Flag struct {
	Name string
	to   any
	help string
}

// Bind returns the option --name, which sets the variable at to: a string, bool, int, float64, []string,
// time.Duration, or an int64, which is a size in bytes; or to is a flag.Value. What the variable holds before the
// command line is read is the default. The help names the value of the option in backquotes.
func Bind(name string, to any, help string) Flag { return Flag{name, to, help} }

func (f Flag) define(fs *flag.FlagSet) {
	switch to := f.to.(type) {
	case *string:
		fs.StringVar(to, f.Name, *to, f.help)
	case *bool:
		fs.BoolVar(to, f.Name, *to, f.help)
	case *int:
		fs.IntVar(to, f.Name, *to, f.help)
	case *float64:
		fs.Float64Var(to, f.Name, *to, f.help)
	case *[]string:
		fs.Var((*stringsValue)(to), f.Name, f.help)
	case *int64:
		fs.Var((*size)(to), f.Name, f.help)
	case *time.Duration:
		fs.Var((*duration)(to), f.Name, f.help)
	default:
		fs.Var(to.(flag.Value), f.Name, f.help)
	}
}

// stringsValue is an option that may be repeated.
type stringsValue []string

// String returns the list with commas.
func (s *stringsValue) String() string { return strings.Join(*s, ",") }

// Set appends to the list. An empty value, such as the last line of a variable, adds nothing.
func (s *stringsValue) Set(v string) error {
	if v != "" {
		*s = append(*s, v)
	}
	return nil
}

// Values returns the values of an option: those of a list, or the one that others have.
func Values(f *flag.Flag) []string {
	if l, ok := f.Value.(*stringsValue); ok {
		return *l
	}
	return []string{f.Value.String()}
}

// size is an option in bytes: "100MB" or "100 MB", "500k", "1.5GiB". Units of
// 1000 are k, M, G, T; of 1024 are Ki, Mi, Gi, Ti; each with or without a B,
// in any case.
type size int64

const sizeUnits = "kmgt"

// String returns the size in the largest unit of 1000 that leaves it whole, else of 1024.
func (s *size) String() string {
	for _, unit := range []struct {
		of     int64
		suffix string
	}{{1000, "B"}, {1024, "iB"}} {
		n, i := int64(*s), 0
		for n != 0 && n%unit.of == 0 && i < len(sizeUnits) {
			n, i = n/unit.of, i+1
		}
		if i > 0 {
			return strconv.FormatInt(n, 10) + strings.ToUpper(sizeUnits[i-1:i]) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set parses a size.
func (s *size) Set(v string) error {
	bad := fmt.Errorf("want a size such as 100MB, 500k or 1.5GiB")
	end := strings.LastIndexAny(v, "0123456789.") + 1
	number, unit := v[:end], strings.ToLower(strings.TrimSpace(v[end:]))
	if strings.Trim(number, "0123456789.") != "" {
		return bad
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return bad
	}
	unit = strings.TrimSuffix(unit, "b")
	base := 1000.0
	if len(unit) == 2 && unit[1] == 'i' {
		unit, base = unit[:1], 1024
	}
	if unit != "" {
		power := strings.Index(sizeUnits, unit) + 1
		if power == 0 || len(unit) != 1 {
			return bad
		}
		n *= math.Pow(base, float64(power))
	}
	if n >= math.MaxInt64 {
		return fmt.Errorf("the size is too large")
	}
	*s = size(n)
	return nil
}

// duration is an option of time, in the notation of [time.ParseDuration] or with days, which stand first:
// "30d", "1d12h", "90s", "0".
type duration time.Duration

const day = 24 * time.Hour

func (d *duration) String() string { return FormatDuration(time.Duration(*d)) }

// FormatDuration returns a duration in the notation of options, without the parts that are zero.
func FormatDuration(d time.Duration) string {
	days, rest := d/day, d%day
	s := rest.String()
	if rest != 0 && rest%time.Minute == 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if rest != 0 && rest%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	switch {
	case days > 0 && rest == 0:
		return fmt.Sprintf("%dd", days)
	case days > 0:
		return fmt.Sprintf("%dd%s", days, s)
	}
	return s
}

// Set parses a duration, which must not be negative.
func (d *duration) Set(v string) error {
	bad := fmt.Errorf("want a duration such as 90s, 10m or 30d")
	var sum time.Duration
	rest := v
	if days, after, ok := strings.Cut(v, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 31)
		if err != nil || n > uint64(math.MaxInt64/day) {
			return bad
		}
		sum, rest = time.Duration(n)*day, after
	}
	if rest != "" || v == "" {
		r, err := time.ParseDuration(rest)
		if err != nil || r < 0 || sum+r < 0 {
			return bad
		}
		sum += r
	}
	*d = duration(sum)
	return nil
}

// A choice is an option that is one of a few words.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }

func (c *choice) Set(v string) error {
	if !slices.Contains(c.of, v) {
		return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
	}
	c.value = v
	return nil
}
