package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A Want says what a copy should contain for a URL.
type Want struct {
	Sums   []string // the content is one of these bodies; none: no body
	Except string   // why the content may differ, if it may; then only Safety judges it
	Cut    int64    // the body may end after this many bytes, if the copy says that it is truncated
}

// Expected returns what the copy of a crawler should contain once it had the time to get it. runs are the
// starts of the crawler, of which the last is in force. It knows W, and the settings.
func Expected(w *world, runs []record.Program, at time.Time) map[string]Want {
	p, began := runs[len(runs)-1], runs[0].Started
	wants := map[string]Want{}
	except := func(u, why string) { wants[u] = Want{Sums: w.since(u, at), Except: why} }
	reach := map[string]int{} // link distance from a start page
	first := slices.Clone(p.Sites)
	if p.Kind != "follow" && !isSet(p, "no-parse") {
		for _, s := range first {
			reach[s] = 1
		}
		for queue := first; len(queue) > 0; queue = queue[1:] {
			u := queue[0]
			l, ok := w.last(u, at)
			if !ok || l.NoFollow {
				continue
			}
			next := l.Links
			if l.Location != "" {
				next = []string{l.Location}
			}
			for _, v := range next {
				v, _, _ = strings.Cut(v, "#")
				if reach[v] == 0 && !filtered(p, v) && slices.ContainsFunc(p.Sites, func(s string) bool { return hostOf(s) == hostOf(v) }) {
					reach[v] = reach[u] + 1
					queue = append(queue, v)
				}
			}
		}
	}
	gone := map[string]int{} // number of vanished pages by publisher, and below those that remain
	here := map[string]int{}
	for _, u := range w.urls {
		if l, ok := w.last(u, at); ok && l.Status == 200 {
			here[base(w, u)]++
		} else if ok && w.ever(u, "") {
			gone[base(w, u)]++
		}
	}
	for _, u := range w.urls {
		l, ok := w.last(u, at)
		if !ok || strings.HasSuffix(u, "/robots.txt") || !slices.ContainsFunc(p.Sites, func(s string) bool { return hostOf(s) == hostOf(u) && (p.Kind != "follow" || strings.HasPrefix(u, s)) }) {
			continue
		}
		sums := w.since(u, at)
		state := w.telling(u)
		mine, theirs := w.allowed(u, agentOf(p), began, at), w.allowed(u, "", always, at) // a publisher already knows what was forbidden before
		told := state == "told" && published(w, u) && theirs == "always" && !(p.Kind != "follow" && isSet(p, "no-manifests"))
		changed := l.from.After(began) || w.before(u, l, began)
		switch linked := reach[u] > 0 && reach[u] <= int(number(p, "max-depth", 15))+1; {
		case !w.ever(u, "") && w.equalToAnother(u):
			except(u, "equal") // a crawler that has these bytes under another name need not fetch them
		case !w.ever(u, ""):
			wants[u] = Want{} // no client was ever given a body
		case mine == "sometimes" || theirs == "sometimes" && state == "told":
			except(u, "robots")
		case mine == "never":
			wants[u] = Want{}
		case w.down(originOf(u), at) || l.Status == 0 || l.Status == 429 || l.Status >= 500:
			except(u, "down")
		case state == "silenced":
			except(u, state)
		case p.Kind == "follow" && (isSet(p, "only") || option(p, "only", "") != "" || option(p, "where", "") != "" || option(p, "program", "") != ""):
			except(u, "filter")
		case p.Kind != "follow" && filtered(p, u):
			except(u, "filter")
		case p.Kind != "follow" && oddName(u):
			except(u, "name")
		case p.Kind == "crawl" && l.from.After(p.Started):
			except(u, "changed meanwhile")

		// The page is gone.
		case l.Status != 200 && state == "told" && gone[base(w, u)] >= here[base(w, u)]+gone[base(w, u)],
			l.Status != 200 && state == "told" && gone[base(w, u)] > 20 && 2*gone[base(w, u)] > here[base(w, u)]+gone[base(w, u)]:
			except(u, "held deletion")
		case (l.Status == 404 || l.Status == 410) && p.Kind == "run" && w.unlisted(u):
			except(u, "noindex") // a crawler that found it by a link is not told
		case l.Status == 404 || l.Status == 410:
			if state == "told" && published(w, u) && (p.Kind == "follow" || p.Kind == "run" && !isSet(p, "no-manifests")) {
				wants[u] = Want{}
			} else {
				except(u, "held deletion")
			}
		case l.Status >= 300 && l.Status < 400:
			except(u, "moved")
		case l.Status != 200:
			except(u, "refused")

		// The page exists.
		case l.NoIndex && (told || state == "told"):
			except(u, "noindex") // the site leaves it out if it sees the tag, and a crawler that finds it by a link stores it
		case p.Kind == "follow" && (told && l.Size > size(p, "max-page", 100<<20) || quota(p, len(w.urls))):
			except(u, "limit")
		case p.Kind == "follow" && told:
			wants[u] = Want{Sums: sums}
		case p.Kind == "follow" && published(w, u):
			except(u, "unlinked")
		case p.Kind == "follow":
			wants[u] = Want{} // the site does not announce this page
		case !told && !linked:
			if reach[u] > 0 {
				except(u, "depth")
			} else {
				except(u, "unlinked")
			}
		case loggedOnly(u):
			except(u, "media type")
		case stopped(p, len(w.urls)):
			except(u, "limit")
		case changed && (p.Kind == "run" && len(w.misled(u)) > 0 || p.Kind == "crawl" && w.misledBefore(u, runs)):
			except(u, "mistold") // a publisher that made wrong statements is trusted less
		case !told && changed && (p.Kind == "run" && !plenty(p, len(w.urls)) || p.Kind == "crawl" && len(runs) > 1 && !isSet(p, "again")):
			except(u, "budget") // it is visited again when the visit is worth its price
		case told && (changed || w.rewritten(u, began)) && w.thrift(p, runs, u):
			except(u, "budget")
		case l.Size > size(p, "max-file", 400_000):
			wants[u] = Want{Sums: sums, Except: "limit", Cut: size(p, "max-file", 400_000)}
		default:
			wants[u] = Want{Sums: sums}
		}
	}
	return wants
}
