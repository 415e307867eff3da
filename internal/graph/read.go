package graph

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/coding"
)

const (
	maxText = math.MaxUint32 // bytes of a text file, unpacked: so neither pages nor links exceed a uint32
	maxLine = 64 << 10       // bytes of a line that names a page
)

// Open reads a graph from a file: links as text (X.adj, also compressed: X.adj.zst, X.adj.gz), or a graph of the WebGraph framework
// (X.graph, with X.properties beside it). If X.nodes.tsv or X.nodes.tsv.zst is beside it, that names the pages. For
// WebGraph see ReadBV.
//
// Line i of a text of links, from 0, has the numbers of the pages to which page i links, in increasing order, with spaces between. Line i of
// names is page i, with tabs between: its number, its host, optionally its path or URL, and optionally its length in bytes; a first line
// with "#" is skipped. Without names, all pages are of one host whose name is unknown. An error names the line. Memory is bounded by the
// length of the texts, each of which is limited to 4 GiB.
func Open(path string) (*Graph, error) {
	g, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("read graph: %w", err)
	}
	return g, nil
}

func open(path string) (g *Graph, err error) {
	base := path
	if ext := filepath.Ext(path); ext == ".zst" || ext == ".gz" {
		base = strings.TrimSuffix(path, ext)
	}
	kind := filepath.Ext(base)
	base = strings.TrimSuffix(base, kind)
	switch kind {
	case ".adj":
		err = unpacked(path, func(r io.Reader) error {
			g, err = readLinks(r)
			return err
		})
	case ".graph":
		var properties *os.File
		if properties, err = os.Open(base + ".properties"); err != nil {
			break
		}
		defer properties.Close()
		err = unpacked(path, func(r io.Reader) error {
			g, err = ReadBV(properties, r)
			return err
		})
	default:
		err = fmt.Errorf("%s: the name of a file of links ends in .adj, .adj.zst or .graph", path)
	}
	if err != nil {
		return nil, err
	}
	for _, ext := range []string{".nodes.tsv.zst", ".nodes.tsv"} {
		err := unpacked(base+ext, g.readNames)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return g, nil
}

// unpacked calls f with the content of a file, which may be compressed.
func unpacked(path string, f func(io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := coding.NewReader(file)
	if err == nil {
		err = f(r)
		r.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func readLinks(r io.Reader) (*Graph, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	g := &Graph{First: []uint32{0}}
	number, digits := int64(0), 0        // the number that is being read
	highest, highestLine := int64(-1), 0 // of all links
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("line %d: "+format, append([]any{len(g.First)}, args...)...)
	}
	for length := int64(0); ; length++ {
		c, err := in.ReadByte()
		switch {
		case err == io.EOF && (digits > 0 || len(g.To) > int(g.First[len(g.First)-1])):
			return nil, wrong("no newline at its end: %w", io.ErrUnexpectedEOF)
		case err == io.EOF && highest >= int64(g.Len()):
			return nil, fmt.Errorf("line %d: links to page %d, but there are %d pages", highestLine, highest, g.Len())
		case err == io.EOF:
			return g.oneHost(), nil
		case err != nil:
			return nil, err
		case length == maxText:
			return nil, errors.New("longer than 4 GiB")
		case '0' <= c && c <= '9':
			digits++
			if number = 10*number + int64(c-'0'); number > math.MaxUint32 {
				return nil, wrong("number of a page above %d", uint32(math.MaxUint32))
			}
			continue
		case c != ' ' && c != '\n' && c != '\r':
			return nil, wrong("unexpected %q: want numbers with spaces between", c)
		}
		if digits > 0 {
			if n := len(g.To); n > int(g.First[len(g.First)-1]) && int64(g.To[n-1]) >= number {
				return nil, wrong("page %d after page %d: want increasing numbers", number, g.To[n-1])
			}
			if number > highest {
				highest, highestLine = number, len(g.First)
			}
			g.To = append(g.To, uint32(number))
			number, digits = 0, 0
		}
		if c == '\n' {
			g.First = append(g.First, uint32(len(g.To)))
		}
	}
}

// oneHost completes a graph of which only the links are known.
func (g *Graph) oneHost() *Graph {
	if g.Len() == 0 {
		return &Graph{}
	}
	g.Host, g.Hosts = make([]uint32, g.Len()), []string{""}
	return g
}

// readNames reads hosts, paths and lengths of all pages.
func (g *Graph) readNames(r io.Reader) error {
	in := bufio.NewReaderSize(r, maxLine)
	g.Hosts = nil
	hosts := make(map[string]uint32)
	columns, page, length := 0, 0, int64(0)
	for line := 1; ; line++ {
		text, err := in.ReadSlice('\n')
		length += int64(len(text))
		switch {
		case err == bufio.ErrBufferFull:
			return fmt.Errorf("line %d: longer than %d bytes", line, maxLine)
		case err == io.EOF && len(text) > 0:
			return fmt.Errorf("line %d: no newline at its end: %w", line, io.ErrUnexpectedEOF)
		case err == io.EOF && page < g.Len():
			return fmt.Errorf("line %d: %d pages are named, but there are %d", line, page, g.Len())
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case length > maxText:
			return errors.New("longer than 4 GiB")
		case line == 1 && text[0] == '#':
			continue
		case page == g.Len():
			return fmt.Errorf("line %d: names a page more than the %d that there are", line, page)
		}
		row := bytes.Split(bytes.TrimRight(text, "\r\n"), []byte{'\t'})
		if page == 0 {
			columns = len(row)
		}
		if len(row) != columns || columns < 2 || columns > 4 {
			return fmt.Errorf("line %d: %d columns, want 2 to 4, as many on all lines: number, host, path or URL, bytes", line, len(row))
		}
		if string(row[0]) != strconv.Itoa(page) {
			return fmt.Errorf("line %d: page number %.20q, want %d", line, row[0], page)
		}
		host, ok := hosts[string(row[1])]
		if !ok {
			host = uint32(len(g.Hosts))
			g.Hosts = append(g.Hosts, string(row[1]))
			hosts[g.Hosts[host]] = host
		}
		g.Host[page] = host
		if columns > 2 {
			g.Path = append(g.Path, pathOf(string(row[2])))
		}
		if columns > 3 {
			n, err := strconv.ParseUint(string(row[3]), 10, 32)
			if err != nil {
				return fmt.Errorf("line %d: length %.20q of a page, want bytes below 2^32", line, row[3])
			}
			g.Bytes = append(g.Bytes, uint32(n))
		}
		page++
	}
}

// pathOf returns what follows the host in a URL, or in a path that lacks its first slash.
func pathOf(s string) string {
	if scheme, rest, ok := strings.Cut(s, "://"); ok && !strings.ContainsAny(scheme, "/?.") {
		s = ""
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			s = rest[i:]
		}
	}
	if strings.HasPrefix(s, "/") {
		return s
	}
	return "/" + s
}
