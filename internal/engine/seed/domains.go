package seed

import (
	"net/url"
	"slices"
	"strings"
)

// domains are those of Rules. Without any, all origins are in them.
type domains struct {
	suffixes []string // each begins with a dot
	hosts    map[string]bool
}

func (d *domains) has(origin string) bool {
	if len(d.suffixes)+len(d.hosts) == 0 {
		return true
	}
	port := portOf(origin)
	host := strings.Trim(origin[strings.Index(origin, "://")+3:len(origin)-len(port)], "[].")
	for _, s := range d.suffixes {
		if strings.HasSuffix(host, s) || host == s[1:] {
			return true
		}
	}
	host = strings.TrimPrefix(host, "www.")
	if d.hosts[host] || port != "" && d.hosts[host+port] {
		return true
	}
	return port == "" && d.hosts[host+defaultPort(origin)]
}

// portOf returns the port of an origin with its colon, empty if that is the default.
func portOf(origin string) string {
	if i := strings.LastIndexByte(origin, ':'); i > len("https") && i > strings.LastIndexByte(origin, ']') {
		return origin[i:]
	}
	return ""
}

func defaultPort(origin string) string {
	if strings.HasPrefix(origin, "https:") {
		return ":443"
	}
	return ":80"
}

// HostsOf returns the hosts of URLs, as Rules.Hosts has them; with ports, each with the port that its URL names: a crawl that begins on
// such a port stays there.
func HostsOf(urls []string, ports bool) (list []string) {
	for _, u := range urls {
		if p, err := url.Parse(u); err == nil && ports && p.Port() != "" {
			list = append(list, p.Host)
		} else if err == nil {
			list = append(list, p.Hostname())
		}
	}
	return list
}

// Widen adds the host of an origin to the Hosts of the Rules in force, if they exclude the origin.
func (s *Seeder) Widen(origin string) {
	if r := s.CurrentRules(); s.Outside(origin) {
		r.Hosts = append(slices.Clip(r.Hosts), HostsOf([]string{origin}, true)...)
		s.SetRules(r)
	}
}
