package seed

import "strings"

func (c *compiled) inDomain(origin string) bool {
	port := portOf(origin)
	host := strings.Trim(origin[strings.Index(origin, "://")+3:len(origin)-len(port)], "[].")
	for _, s := range c.suffixes {
		if strings.HasSuffix(host, s) || host == s[1:] {
			return true
		}
	}
	host = strings.TrimPrefix(host, "www.")
	if c.hosts[host] || port != "" && c.hosts[host+port] {
		return true
	}
	return port == "" && c.hosts[host+defaultPort(origin)]
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
