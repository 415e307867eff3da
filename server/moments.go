package server

import (
	"context"
	"iter"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// Moments returns a function that reads the present items of a journal, for Items of doors.Content.
func Moments(j *Journal) func(context.Context) (*content.Moment, error) {
	return func(context.Context) (*content.Moment, error) {
		v, err := j.View()
		if err != nil {
			return nil, err
		}
		items := func(after string) iter.Seq2[protocol.Item, error] {
			return func(yield func(protocol.Item, error) bool) {
				for r := v.Reader("", true, after); ; {
					e, more, err := r.Next()
					if err == nil && !more || !yield(e.Item, err) || err != nil {
						return
					}
				}
			}
		}
		return &content.Moment{Cursor: v.Head(), Modified: v.Modified(), Items: items, Gone: v.Tombstones(), Close: v.Close}, nil
	}
}
