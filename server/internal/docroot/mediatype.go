package docroot

import (
	"path"
	"strings"

	"github.com/parleyweb/parley/server/internal/public"
)

// mediaType returns the media type of a file by its name. It does not use the system's table, so that a
// manifest is the same bytes on every machine.
func mediaType(name string) string {
	if strings.HasSuffix(name, ".html") { // as most have
		return "text/html"
	}
	name, _ = public.Language(name)
	switch strings.ToLower(path.Ext(name)) {
	case ".html", ".htm":
		return "text/html"
	case ".xhtml":
		return "application/xhtml+xml"
	case ".pdf":
		return "application/pdf"
	case ".txt", ".text", ".log":
		return "text/plain"
	case ".md", ".markdown":
		return "text/markdown"
	case ".css":
		return "text/css"
	case ".csv":
		return "text/csv"
	case ".js", ".mjs":
		return "text/javascript"
	case ".json", ".map":
		return "application/json"
	case ".jsonld":
		return "application/ld+json"
	case ".xml":
		return "application/xml"
	case ".rdf":
		return "application/rdf+xml"
	case ".rss":
		return "application/rss+xml"
	case ".atom":
		return "application/atom+xml"
	case ".ttl":
		return "text/turtle"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".avif":
		return "image/avif"
	case ".ico":
		return "image/vnd.microsoft.icon"
	case ".mp3":
		return "audio/mpeg"
	case ".ogg", ".oga":
		return "audio/ogg"
	case ".wav":
		return "audio/wav"
	case ".mp4":
		return "video/mp4"
	case ".webm":
		return "video/webm"
	case ".woff":
		return "font/woff"
	case ".woff2":
		return "font/woff2"
	case ".ttf":
		return "font/ttf"
	case ".otf":
		return "font/otf"
	case ".wasm":
		return "application/wasm"
	case ".zip":
		return "application/zip"
	case ".gz", ".tgz":
		return "application/gzip"
	case ".epub":
		return "application/epub+zip"
	case ".ps", ".eps":
		return "application/postscript"
	case ".rtf":
		return "application/rtf"
	case ".doc":
		return "application/msword"
	case ".docx":
		return "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	case ".odt":
		return "application/vnd.oasis.opendocument.text"
	case ".xls":
		return "application/vnd.ms-excel"
	case ".xlsx":
		return "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	case ".ppt":
		return "application/vnd.ms-powerpoint"
	case ".pptx":
		return "application/vnd.openxmlformats-officedocument.presentationml.presentation"
	case ".ics":
		return "text/calendar"
	}
	return "application/octet-stream"
}
