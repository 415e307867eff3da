// Package describe has the documents from which others can write a client without reading our code: an
// OpenAPI 3.1 document of a site's doors, and an AsyncAPI 3.1 document of its stream. Both are written by
// hand, in openapi.json and asyncapi.json; they share their schemas, in schemas.json, and tests validate
// every message that is really sent against them.
//
// The schemas use only what JSON Schema 2020-12 (OpenAPI) and draft 7 (AsyncAPI) have in common. They accept
// undescribed members, as readers must.
package describe

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	//go:embed openapi.json
	openAPI []byte
	//go:embed asyncapi.json
	asyncAPI []byte
	//go:embed schemas.json
	schemas []byte
)

// A Site is the subject of a description.
type Site struct {
	Base  string   // its base URL, ending in "/"
	Doors []string // the paths of its doors below Base, such as "parley/changes"
}

// OpenAPI returns the description of the site's doors. It returns an error if Base is invalid.
func (s Site) OpenAPI() ([]byte, error) {
	b, err := s.fill(openAPI, func(doc object) {
		doc.change("paths", func(paths object) object {
			return slices.DeleteFunc(paths, func(p member) bool {
				return p.name != "/.well-known/parley" && !slices.Contains(s.Doors, strings.TrimPrefix(p.name, "/"))
			})
		})
	})
	if err != nil {
		return nil, fmt.Errorf("describe doors: %w", err)
	}
	return b, nil
}

// AsyncAPI returns the description of the stream. It returns an error if Base is invalid.
func (s Site) AsyncAPI() ([]byte, error) {
	b, err := s.fill(asyncAPI, func(object) {})
	if err != nil {
		return nil, fmt.Errorf("describe stream: %w", err)
	}
	return b, nil
}

// fill returns a description with the site's own URLs, reduced by cut, and with the schemas that the rest
// refers to.
func (s Site) fill(source []byte, cut func(object)) ([]byte, error) {
	u, err := url.Parse(s.Base)
	if err != nil {
		return nil, err
	}
	if u.Host == "" || !strings.HasSuffix(s.Base, "/") || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("base %.200q: want http://HOST/ or https://HOST/, ending in a slash", s.Base)
	}
	quoted := func(s string) string { // escapes a part of a JSON string
		b, _ := json.Marshal(s) // a string always encodes
		return string(b[1 : len(b)-1])
	}
	text := strings.NewReplacer("{{base}}", quoted(s.Base), "{{site}}", quoted(strings.TrimSuffix(s.Base, "/")),
		"{{host}}", quoted(u.Host), "{{path}}", quoted(u.EscapedPath()),
		"{{ws}}", "ws"+strings.TrimPrefix(u.Scheme, "http")).Replace(string(source))
	doc := objectOf([]byte(text))
	cut(doc)
	doc.change("components", func(components object) object {
		components.change("schemas", func(object) object { return usedIn(doc) })
		return components
	})
	var out bytes.Buffer
	if err := json.Indent(&out, doc.json(), "", "  "); err != nil {
		panic("describe: " + err.Error()) // our own documents are valid JSON
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

var reference = regexp.MustCompile(`#/components/schemas/([A-Za-z]+)`)

// usedIn returns the schemas that a document refers to, directly or not, in
// the order of schemas.json.
func usedIn(doc object) object {
	all, used := objectOf(schemas), map[string]bool{}
	for texts := [][]byte{doc.json()}; len(texts) > 0; texts = texts[1:] {
		for _, m := range reference.FindAllSubmatch(texts[0], -1) {
			if name := string(m[1]); !used[name] {
				used[name] = true
				texts = append(texts, all.value(name))
			}
		}
	}
	return slices.DeleteFunc(all, func(m member) bool { return !used[m.name] })
}

// An object is a JSON object whose members keep their order, so that it is served in the readable order in
// which it was written.
type object []member

type member struct {
	name string
	text json.RawMessage
}

// objectOf parses an object of our own documents.
func objectOf(text []byte) (o object) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.Token() // the brace
	for d.More() {
		name, err := d.Token()
		m := member{}
		if err == nil {
			m.name = name.(string)
			err = d.Decode(&m.text)
		}
		if err != nil {
			panic("describe: " + err.Error()) // tests have parsed all documents
		}
		o = append(o, m)
	}
	return o
}

func (o object) value(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.text
		}
	}
	return nil
}

// change replaces a member that is an object.
func (o object) change(name string, by func(object) object) {
	for i, m := range o {
		if m.name == name {
			o[i].text = by(objectOf(m.text)).json()
		}
	}
}

func (o object) json() []byte {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(m.name) // a string always encodes
		b = append(append(append(b, name...), ':'), m.text...)
	}
	return append(b, '}')
}
