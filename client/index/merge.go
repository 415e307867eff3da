package index

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"iter"
	"math"
)

// An Opener opens an index for reading from its beginning.
type Opener func() (io.ReadCloser, error)

// Merge writes one index of many to a writer. If a URL is in several, the last of them counts. It needs some
// 64 KiB and four bytes a document for each index, however large they are; all are open at the same time.
func Merge(ctx context.Context, to io.Writer, from ...Opener) error {
	w := newWriter(to)
	var inputs []*input
	defer func() {
		for _, in := range inputs {
			in.file.Close()
		}
	}()
	for i, open := range from {
		f, err := open()
		if err != nil {
			return fmt.Errorf("merge indexes: %w", err)
		}
		in := &input{i: i, file: f}
		inputs = append(inputs, in)
		if in.r, err = newReader(f); err != nil {
			return in.failed(err)
		}
	}
	if err := mergeDocs(ctx, w, inputs); err != nil {
		return err
	}
	w.endDocs()
	if err := mergeTerms(ctx, w, inputs); err != nil {
		return err
	}
	return w.close()
}

// An input is one of the indexes to merge.
type input struct {
	i       int
	file    io.Closer
	r       *reader
	doc     Doc
	numbers []uint32 // new numbers of its documents, by their old ones; superseded: a later index has the document
}

const superseded = math.MaxUint32

func (in *input) failed(err error) error { return fmt.Errorf("merge index %d: %w", in.i+1, err) }

// A queue orders inputs by their current name, the lowest on top.
type queue struct {
	list []*input
	name func(*input) string
}

func (q *queue) Len() int      { return len(q.list) }
func (q *queue) Swap(i, k int) { q.list[i], q.list[k] = q.list[k], q.list[i] }
func (q *queue) Push(x any)    { q.list = append(q.list, x.(*input)) }
func (q *queue) Less(i, k int) bool {
	a, b := q.list[i], q.list[k]
	if x, y := q.name(a), q.name(b); x != y {
		return x < y
	}
	return a.i < b.i
}

func (q *queue) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}

// same removes all inputs with the lowest name, in their order.
func (q *queue) same(list []*input) []*input {
	list = list[:0]
	for len(q.list) > 0 && (len(list) == 0 || q.name(q.list[0]) == q.name(list[0])) {
		list = append(list, heap.Pop(q).(*input))
	}
	return list
}

// merged calls step with all inputs that have the lowest name, in their order, until no input has more. Next reads what is next in an
// input, and returns false at its end.
func merged(ctx context.Context, inputs []*input, name func(*input) string, next func(*input) (bool, error), step func([]*input) error) error {
	q := &queue{name: name}
	advance := func(list []*input) error {
		for _, in := range list {
			if ok, err := next(in); err != nil {
				return in.failed(err)
			} else if ok {
				heap.Push(q, in)
			}
		}
		return nil
	}
	err := advance(inputs)
	list := make([]*input, 0, len(inputs))
	for n := 0; err == nil && q.Len() > 0; n++ {
		list = q.same(list)
		if err = step(list); err == nil {
			err = advance(list)
		}
		if err == nil && n%256 == 0 {
			err = ctx.Err()
		}
	}
	return err
}

func mergeDocs(ctx context.Context, w *writer, inputs []*input) error {
	next := func(in *input) (ok bool, err error) {
		in.doc, ok, err = in.r.doc()
		return ok, err
	}
	return merged(ctx, inputs, func(in *input) string { return in.doc.URL }, next, func(list []*input) error {
		for _, in := range list[:len(list)-1] {
			in.numbers = append(in.numbers, superseded)
		}
		last := list[len(list)-1]
		if w.docs >= mostDocs {
			return errTooMany
		}
		last.numbers = append(last.numbers, uint32(w.docs))
		if w.doc(&last.doc); w.err != nil {
			return w.close()
		}
		return nil
	})
}

func mergeTerms(ctx context.Context, w *writer, inputs []*input) error {
	next := func(in *input) (bool, error) { return in.r.nextTerm() }
	return merged(ctx, inputs, func(in *input) string { return in.r.term }, next, func(list []*input) error {
		return w.term(list[0].r.term, mergePostings(list))
	})
}

// mergePostings yields the postings of all inputs, in the order of their new numbers.
func mergePostings(list []*input) iter.Seq2[posting, error] {
	return func(yield func(posting, error) bool) {
		type stream struct {
			next func() (posting, error, bool)
			at   posting
		}
		var streams []stream
		var stop []func()
		defer func() {
			for _, f := range stop {
				f()
			}
		}()
		for _, in := range list {
			next, end := iter.Pull2(renumbered(in))
			stop = append(stop, end)
			p, err, ok := next()
			if err != nil {
				yield(p, err)
				return
			}
			if ok {
				streams = append(streams, stream{next, p})
			}
		}
		for len(streams) > 0 {
			least := 0
			for i := range streams {
				if streams[i].at.Doc < streams[least].at.Doc {
					least = i
				}
			}
			s := &streams[least]
			if !yield(s.at, nil) {
				return
			}
			p, err, ok := s.next()
			if err != nil {
				yield(p, err)
				return
			}
			if s.at = p; !ok {
				streams = append(streams[:least], streams[least+1:]...)
			}
		}
	}
}

// renumbered yields the postings of documents that are not superseded. Their order stays the same.
func renumbered(in *input) iter.Seq2[posting, error] {
	return func(yield func(posting, error) bool) {
		for p, err := range in.r.postings() {
			if err != nil {
				yield(p, in.failed(err))
				return
			}
			if p.Doc = in.numbers[p.Doc]; p.Doc != superseded && !yield(p, nil) {
				return
			}
		}
	}
}
