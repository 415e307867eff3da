package index

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
)

// A writer writes an index in one pass: documents, then terms with their postings, then the end. It does not
// check its input, which this package guarantees.
type writer struct {
	w    *bufio.Writer
	sum  hash.Hash32
	at   uint64
	err  error
	last string // URL or term

	docs, gone, words, terms uint64
	docsAt, termsAt          []byte // offsets, 8 bytes each
}

func newWriter(to io.Writer) *writer {
	w := &writer{sum: crc32.NewIEEE()}
	w.w = bufio.NewWriterSize(io.MultiWriter(to, w.sum), 64<<10)
	w.write([]byte(magic))
	return w
}

func (w *writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
	w.at += uint64(len(b))
}

func (w *writer) number(v uint64) {
	var b [binary.MaxVarintLen64]byte
	w.write(binary.AppendUvarint(b[:0], v))
}

// name writes a URL or a term; n is the number of names before.
func (w *writer) name(s string, n uint64) {
	shared := 0
	if n%every != 0 {
		for shared < len(s) && shared < len(w.last) && s[shared] == w.last[shared] {
			shared++
		}
	}
	w.number(uint64(shared))
	w.number(uint64(len(s) - shared))
	w.write([]byte(s[shared:]))
	w.last = s
}

func (w *writer) doc(d *Doc) {
	if w.docs%every == 0 {
		w.docsAt = binary.LittleEndian.AppendUint64(w.docsAt, w.at)
	}
	kind := byte(1)
	if d.Gone {
		kind = 2
		w.gone++
	}
	w.write([]byte{kind})
	w.name(d.URL, w.docs)
	if !d.Gone {
		w.write(d.Digest[:])
		w.number(d.Words)
		w.words += d.Words
	}
	w.docs++
}

// endDocs must be called between documents and terms.
func (w *writer) endDocs() {
	w.write([]byte{0})
	w.last = ""
}

// term writes a term with its postings, which are in the order of documents. A term without postings is not
// written.
func (w *writer) term(t string, postings iter.Seq2[posting, error]) error {
	var block []byte
	n, next, begun := 0, uint32(0), false
	flush := func() {
		if n > 0 {
			w.number(uint64(n))
			w.number(uint64(len(block)))
			w.write(block)
			n, block = 0, block[:0]
		}
	}
	for p, err := range postings {
		if err != nil {
			return err
		}
		if !begun {
			begun = true
			if w.terms%every == 0 {
				w.termsAt = binary.LittleEndian.AppendUint64(w.termsAt, w.at)
			}
			w.write([]byte{1})
			w.name(t, w.terms)
			w.terms++
		}
		block = binary.AppendUvarint(block, uint64(p.Doc-next))
		block = binary.AppendUvarint(block, uint64(p.N))
		next = p.Doc + 1
		if n++; n == fullBlock {
			flush()
		}
	}
	if begun {
		flush()
		w.write([]byte{0})
	}
	return w.err
}

// close writes the end of the file.
func (w *writer) close() error {
	w.write([]byte{0})
	docsAt := w.at
	w.write(w.docsAt)
	termsAt := w.at
	w.write(w.termsAt)
	var end []byte
	for _, v := range []uint64{w.docs, w.gone, w.words, w.terms, docsAt, termsAt} {
		end = binary.LittleEndian.AppendUint64(end, v)
	}
	w.write(end)
	if w.err == nil {
		w.err = w.w.Flush()
	}
	w.write(binary.LittleEndian.AppendUint64(nil, uint64(w.sum.Sum32())))
	if w.err == nil {
		w.err = w.w.Flush()
	}
	if w.err != nil {
		return fmt.Errorf("write index: %w", w.err)
	}
	return nil
}

var errTooMany = errors.New("index: too many documents")
