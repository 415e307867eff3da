package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"
)

// The site of a generated log: a few thousand pages, over some days.
const (
	pageCount   = 60_000
	peopleCount = 80_000 // addresses
	spread      = 7 * 24 * time.Hour
)

// A caller is a user agent with its share of a thousand requests.
type caller struct {
	agent  string
	weight int
	fleet  int // addresses; 0 for those of people
}

// callers returns the crawlers; the rest of a thousand requests is from people.
func callers() []caller {
	return []caller{
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/128.0.0.0 Safari/537.36", 60, 200},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36", 45, 120},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", 70, 60},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", 60, 60},
		{"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)", 50, 90},
		{"Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)", 45, 150},
		{"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", 40, 80},
		{"Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)", 30, 40},
		{"Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", 25, 50},
		{"CCBot/2.0 (https://commoncrawl.org/faq/)", 10, 8},
		{"Mozilla/5.0 (compatible; PetalBot;+https://webmaster.petalsearch.com/site/petalbot)", 20, 30},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_10_1) AppleWebKit/600.2.5 (KHTML, like Gecko) Version/8.0.2 Safari/600.2.5 (Amazonbot/0.1; +https://developer.amazon.com/support/amazonbot)", 25, 40},
		{"Feedly/1.0 (+http://www.feedly.com/fetcher.html; 120 subscribers; like FeedFetcher-Google)", 10, 4},
		{"Tiny Tiny RSS/23.11 (https://tt-rss.org/)", 8, 300},
		{"UptimeRobot/2.0; http://www.uptimerobot.com/", 6, 3},
		{"python-requests/2.32.3", 6, 200},
		{"-", 5, 200},
	}
}

// generate writes n lines of the combined format. The same n and seed give the same lines.
func generate(out io.Writer, n int, seed uint64) error {
	w := bufio.NewWriterSize(out, 1<<20)
	r := rand.New(rand.NewPCG(seed, 1))
	page := rand.NewZipf(r, 1.1, 8, pageCount-1)
	person := rand.NewZipf(r, 1.05, 50, peopleCount-1)
	bots, browsers := callers(), browsers(r)
	slots := make([]int, 0, 1000)
	for i, b := range bots {
		for range b.weight {
			slots = append(slots, i)
		}
	}
	start := time.Date(2026, 10, 5, 0, 0, 0, 0, time.UTC)
	b := make([]byte, 0, 1024)
	for i := range n {
		at := start.Add(time.Duration(float64(i) / float64(n) * float64(spread)))
		p := page.Uint64()
		slot := r.IntN(1000)
		var agent, referer string
		b = b[:0]
		bot := slot < len(slots)
		if bot {
			who := bots[slots[slot]]
			agent, referer = who.agent, "-"
			b = address(b, uint64(slots[slot])<<20|uint64(r.IntN(who.fleet)))
			if slot%3 == 0 { // crawlers visit deeper pages than people do
				p = uint64(r.IntN(pageCount))
			}
		} else {
			who := person.Uint64()
			agent, referer = browsers[who%uint64(len(browsers))], "https://www.example.org/"
			if r.IntN(3) == 0 {
				referer = "https://www.example.org" + path(page.Uint64())
			}
			b = address(b, 1<<30|who)
		}
		status, size := answer(r, p, at, bot)
		b = append(b, " - - ["...)
		b = at.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
		b = append(b, `] "GET `...)
		b = append(b, path(p)...)
		if r.IntN(40) == 0 {
			b = append(b, "?utm_source=newsletter&id="...)
			b = strconv.AppendInt(b, int64(r.IntN(20_000)), 10)
		}
		b = append(b, ` HTTP/1.1" `...)
		b = strconv.AppendInt(b, int64(status), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, size, 10)
		b = append(b, ` "`...)
		b = append(b, referer...)
		b = append(b, `" "`...)
		b = append(b, agent...)
		b = append(b, "\"\n"...)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return w.Flush()
}

// answer returns a status and a size. A page changes about once in some days, and its size with it.
func answer(r *rand.Rand, p uint64, at time.Time, bot bool) (status int, size int64) {
	switch k := r.IntN(100); {
	case p%97 == 96:
		return 404, 548
	case p%53 == 52:
		return 301, 162
	case k < 4 && bot || k < 12 && !bot:
		return 304, 0
	case k == 99:
		return 500, 170
	}
	version := uint64(at.Unix()) / (86400 * (1 + p%30))
	h := (p*0x9e3779b97f4a7c15 ^ version*0xbf58476d1ce4e5b9) >> 40
	return 200, 2000 + int64(h%90_000)
}

func path(p uint64) string {
	switch p % 8 {
	case 0:
		return "/assets/" + strconv.FormatUint(p*2654435761%1_000_000_007, 36) + ".css"
	case 1:
		return "/images/" + strconv.FormatUint(p, 10) + "/cover.png"
	case 2:
		return "/tag/" + strconv.FormatUint(p%900, 10) + "/page/" + strconv.FormatUint(p/900, 10)
	}
	return "/" + strconv.FormatUint(2010+p%17, 10) + "/" + strconv.FormatUint(1+p%12, 10) + "/an-article-about-number-" + strconv.FormatUint(p, 10) + ".html"
}

func address(b []byte, n uint64) []byte {
	n = n*0x9e3779b97f4a7c15 ^ n>>7
	return fmt.Appendf(b, "%d.%d.%d.%d", 1+n>>56%223, n>>48&255, n>>40&255, n>>32&255)
}

// browsers returns user agents of browsers.
func browsers(r *rand.Rand) []string {
	var list []string
	systems := []string{"Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7", "X11; Linux x86_64", "X11; Ubuntu; Linux x86_64",
		"Linux; Android 14; Pixel 8", "Linux; Android 13; SM-A536B", "iPhone; CPU iPhone OS 18_1 like Mac OS X", "iPad; CPU OS 17_6 like Mac OS X"}
	for range 400 {
		system, v := systems[r.IntN(len(systems))], 90+r.IntN(50)
		if r.IntN(4) == 0 {
			list = append(list, fmt.Sprintf("Mozilla/5.0 (%s; rv:%d.0) Gecko/20100101 Firefox/%d.0", system, v, v))
		} else {
			list = append(list, fmt.Sprintf("Mozilla/5.0 (%s) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.%d.%d Safari/537.36", system, v, 4000+r.IntN(3000), r.IntN(200)))
		}
	}
	return list
}
