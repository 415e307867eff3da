package harvest

import (
	"cmp"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// A slowBody returns a byte after each wait.
type slowBody struct{ waits []time.Duration }

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.waits) == 0 {
		return 0, io.EOF
	}
	time.Sleep(b.waits[0])
	b.waits = b.waits[1:]
	return 1, nil
}

func (b *slowBody) Close() error { return nil }

// A site is blamed for the time in which bytes of it are awaited, and not for the time that the crawler takes to
// write or decode what came.
func TestPaceIgnoresOwnTime(t *testing.T) {
	for name, c := range map[string]struct {
		waits []time.Duration // of the site
		busy  time.Duration   // our own, after each byte
		want  error
	}{
		"a prompt site":                        {[]time.Duration{1, 1, 1}, 0, nil},
		"our disk stalls":                      {[]time.Duration{1, 1, 1}, 95 * time.Second, nil},
		"our disk stalls briefly":              {[]time.Duration{1, 29 * time.Second, 1}, 5 * time.Millisecond, nil},
		"our disk stalls, and the site waits":  {[]time.Duration{1, 29 * time.Second, 29 * time.Second}, 29 * time.Second, nil},
		"a silent site":                        {[]time.Duration{1, 61 * time.Second}, 0, errSilent},
		"a silent site after our disk stalled": {[]time.Duration{1, 61 * time.Second}, 65 * time.Second, errSilent},
		"too long":                             {[]time.Duration{25 * time.Second, 25 * time.Second, 25 * time.Second, 25 * time.Second, 25 * time.Second, 25 * time.Second, 25 * time.Second}, 0, errLong},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p pace
				cut := false
				p.start(func() { cut = true }, 30*time.Second, 150*time.Second, 0)
				defer p.stop()
				body := paced{&slowBody{waits: c.waits}, &p}
				for {
					if _, err := body.Read(make([]byte, 10)); err != nil {
						break
					}
					time.Sleep(c.busy)
				}
				if err := p.cause(io.ErrUnexpectedEOF); err != cmp.Or(c.want, io.ErrUnexpectedEOF) || cut != (c.want != nil) {
					t.Errorf("cut %v, %v, want %v", cut, err, c.want)
				}
			})
		})
	}
}
