package command

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// levels returns the values of --log-level.
func levels() []string { return []string{"error", "warn", "info", "debug"} }

func lower(l slog.Level) string { return strings.ToLower(l.String()) }

func newLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: l, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(FormatDuration(a.Value.Duration()))
		}
		return a
	}}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// Progress shows the progress of long work to a person: it does nothing if Stderr is not a terminal, nor does
// the zero Progress. It is safe for concurrent use.
type Progress struct {
	bar *progressbar.ProgressBar
}

// Progress begins to show work with a known total, or -1. The bar appears with the first Add and is gone
// after Done.
func (e *Env) Progress(label string, total int64) *Progress {
	if !e.IsTerminal() {
		return &Progress{}
	}
	return newProgress(e.Stderr, label, total)
}

// IsTerminal reports whether a person watches: Stderr is a terminal.
func (e *Env) IsTerminal() bool {
	f, ok := e.Stderr.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func newProgress(w io.Writer, label string, total int64) *Progress {
	return &Progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(label),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetRenderBlankState(false),
		progressbar.OptionClearOnFinish(),
	)}
}

// Add reports that n more is done. Errors in showing it are ignored.
func (p *Progress) Add(n int64) {
	if p.bar != nil {
		_ = p.bar.Add64(n)
	}
}

// Done removes the bar.
func (p *Progress) Done() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear() // Finish does so only if the total is known
	}
}
