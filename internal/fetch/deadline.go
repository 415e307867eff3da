package fetch

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"
)

// A deadline ends one request after the Timeout of its Client, or after Idle without a byte. It belongs to
// Do until there is an Answer, and then to that.
type deadline struct {
	idle  time.Duration
	timer *time.Timer       // of Idle; stopped while nobody waits for a byte
	cause func(error) error // what an error is to the caller
	end   func()            // ends the request, and frees what it needs
}

// newDeadline returns a deadline that begins now, and the context that it ends.
func newDeadline(ctx context.Context, timeout, idle time.Duration) (context.Context, deadline) {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	if idle <= 0 {
		idle = timeout
	}
	ctx, stop := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(idle, func() { cancel(ErrTimeout) })
	return ctx, deadline{idle, timer, func(err error) error { return because(ctx, err) }, func() { timer.Stop(); cancel(nil); stop() }}
}

// because removes the method and the URL that net/http puts before an error, and makes every
// timeout an ErrTimeout.
func because(ctx context.Context, err error) error {
	var slow net.Error
	if context.Cause(ctx) == ErrTimeout || errors.As(err, &slow) && slow.Timeout() {
		return &timeoutError{plain(err)}
	}
	return plain(err)
}

// A timeoutError is ErrTimeout together with the error of net/http.
type timeoutError struct{ cause error }

func (e *timeoutError) Error() string   { return ErrTimeout.Error() }
func (e *timeoutError) Unwrap() []error { return []error{ErrTimeout, e.cause} }

func plain(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		return outer.Err
	}
	return err
}
