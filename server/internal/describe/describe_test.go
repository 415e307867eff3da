package describe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/describe"
)

// all are the doors below the base.
var all = []string{"robots.rdf", "parley/changes", "parley/query", "parley/batch", "parley/site.wacz", "parley/agents", "parley/agents/run", "parley/announce"}

func value(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	return v
}

// schemasOf compiles the schemas by name. Strict ones reject members that they do not describe: readers
// ignore such members, but the site itself must send none.
func schemasOf(t *testing.T, strict bool) map[string]*jsonschema.Schema {
	t.Helper()
	doc := value(t, describe.Schemas()).(map[string]any)
	if strict {
		close(doc)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must.OK(t, c.AddResource("urn:schemas", doc))
	compiled := map[string]*jsonschema.Schema{}
	for name := range doc["$defs"].(map[string]any) {
		s := must.Get(c.Compile("urn:schemas#/$defs/" + name))
		compiled[name] = s
	}
	return compiled
}

// close makes every object schema reject members that it does not name.
func close(schema any) {
	switch s := schema.(type) {
	case []any:
		for _, v := range s {
			close(v)
		}
	case map[string]any:
		for _, v := range s {
			close(v)
		}
		if s["type"] == "object" && s["additionalProperties"] == nil {
			s["unevaluatedProperties"] = false
		}
	}
}

func documents(t *testing.T, base string, doors ...string) map[string][]byte {
	t.Helper()
	s := describe.Site{Base: base, Doors: doors}
	openAPI := must.Get(s.OpenAPI())
	asyncAPI := must.Get(s.AsyncAPI())
	return map[string][]byte{"openapi": openAPI, "asyncapi": asyncAPI}
}

// Each document is complete: its references resolve within it, no placeholder is left, and it names no other
// site.
func TestDocuments(t *testing.T) {
	for _, base := range []string{"https://www.example.org/", "http://127.0.0.1:8080/a%20b/"} {
		for name, text := range documents(t, base, all...) {
			doc := value(t, text).(map[string]any)
			if i := bytes.Index(text, []byte("{{")); i >= 0 {
				t.Errorf("%s: not filled in: %.60s", name, text[i:])
			}
			for _, m := range regexp.MustCompile(`"\$ref": "([^"]*)"`).FindAllSubmatch(text, -1) {
				if lookup(doc, string(m[1])) == nil {
					t.Errorf("%s refers to %s, which does not exist", name, m[1])
				}
			}
			for unused := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
				if !bytes.Contains(text, []byte(`"#/components/schemas/`+unused+`"`)) {
					t.Errorf("%s has a schema %s that nothing refers to", name, unused)
				}
			}
			for _, m := range regexp.MustCompile(`"(wss?|https?)://[^"]*`).FindAll(text, -1) {
				if !bytes.HasPrefix(m, []byte(`"`+strings.TrimSuffix(base, "/"))) && !bytes.HasPrefix([]byte(base), m[1:]) {
					t.Errorf("%s of %s names %s", name, base, m)
				}
			}
		}
	}
	for _, base := range []string{"", "www.example.org/", "https://www.example.org", "ftp://www.example.org/", "https:///", "https://%zz/"} {
		if _, err := (describe.Site{Base: base}).OpenAPI(); err == nil {
			t.Errorf("a site with the base %q is described", base)
		}
	}
}

// lookup follows a reference within a document.
func lookup(doc any, ref string) any {
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	for name := range strings.SplitSeq(rest, "/") {
		m, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = m[strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")]
	}
	return doc
}

// Doors that a site does not have are not described.
func TestOnlyOfferedDoorsAreDescribed(t *testing.T) {
	doc := value(t, documents(t, "https://www.example.org/", "robots.rdf", "parley/changes")["openapi"]).(map[string]any)
	got := slices.Sorted(maps.Keys(doc["paths"].(map[string]any)))
	if want := []string{"/.well-known/parley", "/parley/changes", "/robots.rdf"}; !slices.Equal(got, want) {
		t.Errorf("the description has %v, want %v", got, want)
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	if schemas["batchQuestion"] != nil || schemas["change"] == nil {
		t.Errorf("schemas: %v", slices.Sorted(maps.Keys(schemas)))
	}
}

// The described parameters are the protocol's parameters.
func TestParameters(t *testing.T) {
	docs := documents(t, "https://www.example.org/", all...)
	openAPI, asyncAPI := value(t, docs["openapi"]), value(t, docs["asyncapi"])
	named := func(path, method string) (names []string) {
		for _, p := range lookup(openAPI, "#/paths/"+path+"/"+method+"/parameters").([]any) {
			if ref, ok := p.(map[string]any)["$ref"].(string); ok {
				p = lookup(openAPI, ref)
			}
			names = append(names, p.(map[string]any)["name"].(string))
		}
		return names
	}
	stream := slices.Sorted(maps.Keys(lookup(asyncAPI, "#/channels/stream/bindings/ws/query/properties").(map[string]any)))
	for where, c := range map[string]struct{ got, want []string }{
		"changes": {named("~1parley~1changes", "get"), append(protocol.FilterNames(), "after", "wait", "limit", "as", "every", "count")},
		"stream":  {stream, append(protocol.FilterNames(), "after", "as", "every", "count")},
		"batch":   {named("~1parley~1batch", "get"), append(slices.DeleteFunc(protocol.FilterNames(), func(name string) bool { return name == "agent" }), "after", "to")},
	} {
		slices.Sort(c.got)
		slices.Sort(c.want)
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s is described with %v, but accepts %v", where, c.got, c.want)
		}
	}
	forms := lookup(openAPI, "#/components/parameters/as/schema/enum").([]any)
	if fmt.Sprint(forms) != fmt.Sprint(protocol.Forms()) {
		t.Errorf("forms: %v", forms)
	}
}

// The examples are valid messages, by the schemas and by our own reader.
func TestExamples(t *testing.T) {
	doc := value(t, documents(t, "https://www.example.org/")["asyncapi"])
	schemas := schemasOf(t, true)
	seen := 0
	for name, m := range lookup(doc, "#/components/messages").(map[string]any) {
		for _, e := range m.(map[string]any)["examples"].([]any) {
			seen++
			payload := e.(map[string]any)["payload"]
			if err := schemas[name].Validate(payload); err != nil {
				t.Errorf("example of %s: %v", name, err)
			}
			if err := schemas["message"].Validate(payload); err != nil {
				t.Errorf("example of %s: %v", name, err)
			}
			b := must.Get(json.Marshal(payload))
			if got, err := protocol.ParseMessage(b); err != nil || string(got.Kind) != name {
				t.Errorf("example of %s: read as %s: %v", name, got.Kind, err)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d examples", seen)
	}
}

// The documents conform to the schemas that OpenAPI and AsyncAPI publish for their formats. PARLEY_SPECS
// names a directory with those, which .ci/run fills.
func TestOfficialSchemas(t *testing.T) {
	dir := os.Getenv("PARLEY_SPECS")
	if dir == "" {
		t.Skip("PARLEY_SPECS names no directory with the schemas of OpenAPI and AsyncAPI")
	}
	for name, text := range documents(t, "https://www.example.org/", all...) {
		b := must.Get(os.ReadFile(filepath.Join(dir, name+".json")))
		c := jsonschema.NewCompiler()
		schema := value(t, b).(map[string]any)
		delete(schema, "$id") // it is referred to by its name here
		must.OK(t, c.AddResource("urn:"+name, schema))
		compiled := must.Get(c.Compile("urn:" + name))
		doc := value(t, text).(map[string]any)
		if err := compiled.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		doc["info"] = nil
		if compiled.Validate(doc) == nil {
			t.Errorf("%s without its info is accepted as valid", name)
		}
	}
}
