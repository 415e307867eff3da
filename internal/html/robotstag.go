package html

import (
	"strings"
	"time"
)

// Directives are the directives of an X-Robots-Tag header.
type Directives struct {
	NoIndex, NoFollow, NoArchive bool
}

// RobotsTag parses the values of X-Robots-Tag, such as "noindex, nofollow" or "ourbot: noindex, otherbot:
// nofollow": a name applies to the directives after it, up to the next name. Directives for all robots, for
// Parley or for the agent count; the agent may be empty. A page whose unavailable_after is past is NoIndex.
func RobotsTag(values []string, agent string) (d Directives) {
	for _, v := range values {
		ours, at := true, 0
		for part := range strings.SplitSeq(v, ",") {
			size := len(part) + 1
			if name, rest, found := strings.Cut(part, ":"); found && !valued(name) {
				name = strings.TrimSpace(name)
				ours = name == "*" || strings.EqualFold(name, "robots") || strings.EqualFold(name, "parley") || agent != "" && strings.EqualFold(name, agent)
				part = rest
			}
			if ours {
				index, follow := robots([]byte(part))
				d.NoIndex, d.NoFollow = d.NoIndex || index, d.NoFollow || follow
				d.NoArchive = d.NoArchive || hasWord([]byte(part), "noarchive")
				if name, _, _ := strings.Cut(part, ":"); strings.EqualFold(strings.TrimSpace(name), "unavailable_after") {
					d.NoIndex = d.NoIndex || Expired(UnavailableAfter([]byte(v[at:])), time.Now()) // its date may have a comma
				}
			}
			at += size
		}
	}
	return d
}

// valued reports whether a name is that of a directive with a value, and not of a robot.
func valued(name string) bool {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "unavailable_after", "max-snippet", "max-image-preview", "max-video-preview":
		return true
	}
	// A date has colons, too: "unavailable_after: 25 Jun 2010 15:00:00 PST".
	return strings.ContainsAny(strings.TrimSpace(name), " 0123456789")
}
