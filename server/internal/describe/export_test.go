package describe

import (
	"bytes"
	"slices"
)

// Names that only tests use.

// Schemas returns the schemas of both documents, by name, as one schema of JSON Schema 2020-12:
// "#/$defs/hello" is that of the message hello.
func Schemas() []byte {
	defs := bytes.ReplaceAll(schemas, []byte("#/components/schemas/"), []byte("#/$defs/"))
	return slices.Concat([]byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":`), defs, []byte("}"))
}
