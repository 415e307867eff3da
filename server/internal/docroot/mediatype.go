package docroot

import (
	"cmp"
	"path"
	"strings"

	"github.com/parleyweb/parley/server/internal/public"
)

// mediaTypes are the media types of files by the extensions of their names, as in the file mime.types of a web server.
const mediaTypes = `
text/html .html .htm
application/xhtml+xml .xhtml
application/pdf .pdf
text/plain .txt .text .log
text/markdown .md .markdown
text/css .css
text/csv .csv
text/javascript .js .mjs
application/json .json .map
application/ld+json .jsonld
application/xml .xml
application/rdf+xml .rdf
application/rss+xml .rss
application/atom+xml .atom
text/turtle .ttl
image/svg+xml .svg
image/png .png
image/jpeg .jpg .jpeg
image/gif .gif
image/webp .webp
image/avif .avif
image/vnd.microsoft.icon .ico
audio/mpeg .mp3
audio/ogg .ogg .oga
audio/wav .wav
video/mp4 .mp4
video/webm .webm
font/woff .woff
font/woff2 .woff2
font/ttf .ttf
font/otf .otf
application/wasm .wasm
application/zip .zip
application/gzip .gz .tgz
application/epub+zip .epub
application/postscript .ps .eps
application/rtf .rtf
application/msword .doc
application/vnd.openxmlformats-officedocument.wordprocessingml.document .docx
application/vnd.oasis.opendocument.text .odt
application/vnd.ms-excel .xls
application/vnd.openxmlformats-officedocument.spreadsheetml.sheet .xlsx
application/vnd.ms-powerpoint .ppt
application/vnd.openxmlformats-officedocument.presentationml.presentation .pptx
text/calendar .ics
`

var mediaTypeOf = func() map[string]string {
	types := map[string]string{}
	for line := range strings.Lines(mediaTypes) {
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			types[words[i]] = words[0]
		}
	}
	return types
}()

// mediaType returns the media type of a file by its name. It does not use the system's table, so that a
// manifest is the same bytes on every machine.
func mediaType(name string) string {
	if strings.HasSuffix(name, ".html") { // as most have
		return "text/html"
	}
	name, _ = public.Language(name)
	return cmp.Or(mediaTypeOf[strings.ToLower(path.Ext(name))], "application/octet-stream")
}
