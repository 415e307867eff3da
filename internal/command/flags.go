package command

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Strings is an option that may be repeated: flag.Var(&list, "include", ...).
type Strings []string

// String returns the list with commas.
func (s *Strings) String() string { return strings.Join(*s, ",") }

// Set appends to the list. An empty value, such as the last line of a variable, adds nothing.
func (s *Strings) Set(v string) error {
	if v != "" {
		*s = append(*s, v)
	}
	return nil
}

// Size is an option in bytes: "100MB" or "100 MB", "500k", "1.5GiB". Units of
// 1000 are k, M, G, T; of 1024 are Ki, Mi, Gi, Ti; each with or without a B,
// in any case.
type Size int64

const sizeUnits = "kmgt"

// String returns the size in the largest unit of 1000 that leaves it whole, else of 1024.
func (s *Size) String() string {
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
func (s *Size) Set(v string) error {
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
	*s = Size(n)
	return nil
}

// Duration is an option of time, in the notation of [time.ParseDuration] or with days, which stand first:
// "30d", "1d12h", "90s", "0".
type Duration time.Duration

const day = 24 * time.Hour

// String returns the duration without the parts that are zero.
func (d *Duration) String() string {
	days, rest := time.Duration(*d)/day, time.Duration(*d)%day
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
func (d *Duration) Set(v string) error {
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
	*d = Duration(sum)
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
