package cel

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/parleyweb/parley/protocol"
)

// A structure is the type of a variable: change or page.
type structure struct {
	name   string
	object *types.Type
	fields []field
}

// A field is a field of change or page.
type field struct {
	name string
	typ  *types.Type
	most uint64 // upper bound of the bytes of a text
	get  func(*protocol.Change) (v ref.Val, known bool)
}

const longestDigest = 53 // bytes of Digest.String

var changeType = &structure{"parley.Change", types.NewObjectType("parley.Change"), []field{
	textField("op", 8, func(c *protocol.Change) string { return string(c.Op) }),
	textField("url", protocol.MaxURL, func(c *protocol.Change) string { return c.Item.URL }),
	textField("path", protocol.MaxURL, func(c *protocol.Change) string { return path(c.Item.URL) }),
	{"depth", types.IntType, 0, func(c *protocol.Change) (ref.Val, bool) { return types.Int(protocol.Depth(c.Item.URL)), true }},
	textField("from", protocol.MaxURL, func(c *protocol.Change) string { return c.From }),
	{"seq", types.IntType, 0, func(c *protocol.Change) (ref.Val, bool) { return types.Int(c.Seq), c.Seq > 0 }},
	{"at", types.TimestampType, 0, func(c *protocol.Change) (ref.Val, bool) { return types.Timestamp{Time: c.At}, !c.At.IsZero() }},
	textField("prev", longestDigest, func(c *protocol.Change) string { return c.Prev.String() }),
	{"significance", types.DoubleType, 0, func(c *protocol.Change) (ref.Val, bool) {
		share, known := c.Significance.Share()
		return types.Double(share), known
	}},
}}

var pageType = &structure{"parley.Page", types.NewObjectType("parley.Page"), []field{
	textField("type", 127, func(c *protocol.Change) string { return c.Item.Type }),
	{"length", types.IntType, 0, func(c *protocol.Change) (ref.Val, bool) { return types.Int(c.Item.Length), c.Item.Length >= 0 }},
	textField("language", 35, func(c *protocol.Change) string { return c.Item.Language }),
	textField("title", 1024, func(c *protocol.Change) string { return c.Item.Title }),
	{"modified", types.TimestampType, 0, func(c *protocol.Change) (ref.Val, bool) {
		return types.Timestamp{Time: c.Item.Modified}, !c.Item.Modified.IsZero()
	}},
	{"importance", types.DoubleType, 0, func(c *protocol.Change) (ref.Val, bool) {
		share, known := c.Item.Importance.Share()
		return types.Double(share), known
	}},
	textField("digest", longestDigest, func(c *protocol.Change) string { return c.Item.Digest.String() }),
	textField("canonical", protocol.MaxURL, func(c *protocol.Change) string { return c.Item.Canonical }),
}}

// textField returns a field that is a text, of at most so many bytes; it is known if it is not empty.
func textField(name string, most uint64, of func(*protocol.Change) string) field {
	return field{name, types.StringType, most, func(c *protocol.Change) (ref.Val, bool) { s := of(c); return types.String(s), s != "" }}
}

func path(url string) string {
	p, _, _ := strings.Cut(url[len(protocol.Origin(url)):], "?")
	return p
}

func fieldOf(variable, name string) *field {
	s := changeType
	if variable == "page" {
		s = pageType
	}
	return s.field(name)
}

func (s *structure) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

func (s *structure) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// known returns a field's value, and false if it is unknown. After a delete all fields of page are.
func (s *structure) known(f *field, of any) (ref.Val, bool) {
	c, ok := of.(*protocol.Change)
	if !ok || s == pageType && c.Op == protocol.Delete {
		return nil, false
	}
	return f.get(c)
}

// provider tells the checker which fields exist, and the evaluator how to get them.
type provider struct{ *types.Registry }

func structureOf(name string) *structure {
	switch name {
	case changeType.name:
		return changeType
	case pageType.name:
		return pageType
	}
	return nil
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if s := structureOf(name); s != nil {
		return types.NewTypeTypeWithParam(s.object), true
	}
	return p.Registry.FindStructType(name)
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if s := structureOf(name); s != nil {
		return s.names(), true
	}
	return p.Registry.FindStructFieldNames(name)
}

func (p *provider) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	s := structureOf(name)
	if s == nil {
		return p.Registry.FindStructFieldType(name, fieldName)
	}
	f := s.field(fieldName)
	if f == nil {
		return nil, false
	}
	return &types.FieldType{Type: f.typ,
		IsSet: func(of any) bool {
			_, known := s.known(f, of)
			return known
		},
		GetFrom: func(of any) (any, error) {
			v, known := s.known(f, of)
			if !known {
				return nil, errors.New(f.name + " is not known")
			}
			return v, nil
		}}, true
}

func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if structureOf(name) != nil {
		return types.NewErr("%s cannot be made", name)
	}
	return p.Registry.NewValue(name, fields)
}

// An activation resolves an expression's variables.
type activation protocol.Change

func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case "change":
		return value{(*protocol.Change)(a), changeType}, true
	case "page":
		return value{(*protocol.Change)(a), pageType}, true
	}
	return nil, false
}

func (a *activation) Parent() cel.Activation { return nil }

// A value is change or page as a whole, which has nothing but fields.
type value struct {
	c *protocol.Change
	s *structure
}

func (v value) Value() any     { return v.c }
func (v value) Type() ref.Type { return v.s.object }

func (v value) Equal(other ref.Val) ref.Val {
	o, ok := other.(value)
	return types.Bool(ok && o == v)
}

func (v value) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case v.s.object:
		return v
	case types.TypeType:
		return v.s.object
	}
	return types.NewErr("a %s is not a %s", v.s.name, t.TypeName())
}

func (v value) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a %s is not a %v", v.s.name, t)
}
