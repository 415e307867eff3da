package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// A Builder makes an index of documents that come in any order. If a URL comes again the last counts. Close
// must be called at the end.
type Builder struct {
	// Dir is the directory for temporary files; empty means the system's directory for such files. Memory is
	// the approximate number of bytes in memory at which one is written; zero means 64 MiB.
	Dir    string
	Memory int

	pages map[string]*page
	size  int
	temp  string
	files []string
}

type page struct {
	doc   Doc
	terms map[string]uint32
}

// Add adds a document with the count of each of its terms.
func (b *Builder) Add(d Doc, terms map[string]uint32) error {
	if d.URL == "" || len(d.URL) > maxURL {
		return fmt.Errorf("index document: URL is empty or too long: %d bytes", len(d.URL))
	}
	if d.Gone {
		d, terms = Doc{URL: d.URL, Gone: true}, nil
	}
	for t, n := range terms {
		if t == "" || len(t) > maxTerm || n == 0 {
			return fmt.Errorf("index %s: invalid term: %d bytes, count %d", d.URL, len(t), n)
		}
	}
	b.put(&page{d, terms})
	return b.spare()
}

// AddPage adds the text of a page. It sets d.Words by counting.
func (b *Builder) AddPage(d Doc, mediaType string, content []byte) error {
	var terms map[string]uint32
	terms, d.Words = count(Text(d.URL, mediaType, content))
	return b.Add(d, terms)
}

// AddIndex adds the documents of an index. It is meant for indexes of a page or a few: large ones should be
// merged.
func (b *Builder) AddIndex(from io.Reader) error {
	r, err := newReader(from)
	if err != nil {
		return fmt.Errorf("add index: %w", err)
	}
	var pages []*page
	for {
		d, ok, err := r.doc()
		if err != nil {
			return fmt.Errorf("add index: %w", err)
		} else if !ok {
			break
		}
		pages = append(pages, &page{doc: d, terms: make(map[string]uint32)})
	}
	for {
		ok, err := r.nextTerm()
		if err != nil {
			return fmt.Errorf("add index: %w", err)
		} else if !ok {
			break
		}
		for p, err := range r.postings() {
			if err != nil {
				return fmt.Errorf("add index: %w", err)
			}
			pages[p.Doc].terms[r.term] = p.N
		}
	}
	for _, p := range pages { // only after all of it was found to be valid
		b.put(p)
	}
	return b.spare()
}

func (b *Builder) put(p *page) {
	if b.pages == nil {
		b.pages = make(map[string]*page)
	}
	if old := b.pages[p.doc.URL]; old != nil {
		b.size -= old.size()
	}
	b.pages[p.doc.URL] = p
	b.size += p.size()
}

// size is the approximate memory of a page in bytes.
func (p *page) size() int { return 200 + len(p.doc.URL) + 60*len(p.terms) }

// spare writes the documents in memory to a file, if they are large enough.
func (b *Builder) spare() error {
	most := b.Memory
	if most <= 0 {
		most = 64 << 20
	}
	if b.size < most {
		return nil
	}
	return b.putAside()
}

func (b *Builder) putAside() (err error) {
	if b.temp == "" {
		if b.temp, err = os.MkdirTemp(b.Dir, "parley-index-"); err != nil {
			return fmt.Errorf("build index: %w", err)
		}
	}
	f, err := os.Create(filepath.Join(b.temp, fmt.Sprintf("part-%06d", len(b.files))))
	if err != nil {
		return fmt.Errorf("build index: %w", err)
	}
	b.files = append(b.files, f.Name())
	return errors.Join(b.flush(f), f.Close())
}

// flush writes the documents in memory, and drops them.
func (b *Builder) flush(to io.Writer) error {
	w := newWriter(to)
	postings := make(map[string][]posting)
	for i, url := range slices.Sorted(maps.Keys(b.pages)) {
		p := b.pages[url]
		w.doc(&p.doc)
		for t, n := range p.terms {
			postings[t] = append(postings[t], posting{uint32(i), n})
		}
	}
	b.pages, b.size = nil, 0
	w.endDocs()
	for _, t := range slices.Sorted(maps.Keys(postings)) {
		err := w.term(t, func(yield func(posting, error) bool) {
			for _, p := range postings[t] {
				if !yield(p, nil) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return w.close()
}

// Write writes the index of all documents. The Builder is empty then.
func (b *Builder) Write(ctx context.Context, to io.Writer) error {
	if len(b.files) == 0 {
		return b.flush(to)
	}
	if len(b.pages) > 0 {
		if err := b.putAside(); err != nil {
			return err
		}
	}
	files := b.files
	b.files = nil
	return MergeFiles(ctx, to, b.temp, files...)
}

// Close removes the temporary files.
func (b *Builder) Close() error {
	if b.temp == "" {
		return nil
	}
	return os.RemoveAll(b.temp)
}

// mostOpen is the largest number of files merged at a time.
const mostOpen = 64

// MergeFiles is Merge for any number of files. If they are too many to be open at the same time, it writes
// intermediate files into a temporary directory below dir; empty means the system's directory for such files.
func MergeFiles(ctx context.Context, to io.Writer, dir string, files ...string) error {
	if len(files) > mostOpen {
		temp, err := os.MkdirTemp(dir, "parley-merge-")
		if err != nil {
			return fmt.Errorf("merge indexes: %w", err)
		}
		defer os.RemoveAll(temp)
		var parts []string
		for group := range slices.Chunk(files, mostOpen) {
			f, err := os.Create(filepath.Join(temp, fmt.Sprintf("part-%06d", len(parts))))
			if err != nil {
				return fmt.Errorf("merge indexes: %w", err)
			}
			parts = append(parts, f.Name())
			if err := errors.Join(mergeSome(ctx, f, group), f.Close()); err != nil {
				return err
			}
		}
		return MergeFiles(ctx, to, dir, parts...)
	}
	return mergeSome(ctx, to, files)
}

func mergeSome(ctx context.Context, to io.Writer, files []string) error {
	open := make([]Opener, len(files))
	for i, name := range files {
		open[i] = func() (io.ReadCloser, error) { return os.Open(name) }
	}
	return Merge(ctx, to, open...)
}

// Page returns the index of one page, as a site sends it.
func Page(d Doc, mediaType string, content []byte) ([]byte, error) {
	var b Builder
	if err := b.AddPage(d, mediaType, content); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err := b.flush(&out)
	return out.Bytes(), err
}
