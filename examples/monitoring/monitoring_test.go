package monitoring

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
)

// start runs a program until the test ends.
func start(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(program), said.String())
		}
	})
}

// get returns the body of a URL, "" while there is no answer.
func get(u string) string {
	resp, err := http.Get(u)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute there is no %s", what)
		}
	}
}

// queries returns those of the alerts and of the dashboard.
func queries(t *testing.T) (alerts, panels []string) {
	t.Helper()
	rules, err := os.ReadFile("rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(string(rules), -1) {
		alerts = append(alerts, m[1])
	}
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, x := range p.Targets {
			panels = append(panels, x.Expr)
		}
	}
	if len(alerts) < 8 || len(panels) < 30 {
		t.Fatalf("%d alerts and %d queries of the dashboard", len(alerts), len(panels))
	}
	return alerts, panels
}

// monitored runs a notifier and a crawler that follows its site, and returns their --admin addresses.
func monitored(t *testing.T) (site, crawler string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../../cmd/notifier", "../../cmd/crawler").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	docroot := filepath.Join(dir, "www")
	if err := os.Mkdir(docroot, 0o755); err != nil {
		t.Fatal(err)
	}
	page := func(text string) {
		if err := os.WriteFile(filepath.Join(docroot, "index.html"), []byte("<title>Home</title><p>"+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page("Welcome.")
	site, crawler = front.FreeAddress(), front.FreeAddress()
	listen := front.FreeAddress()
	base := "http://" + listen + "/"
	start(t, filepath.Join(dir, "notifier"), "--docroot", docroot, "--base", base, "--listen", listen, "--serve-pages", "--preset", "high",
		"--state", filepath.Join(dir, "site.state"), "--admin", site)
	until(t, "site", func() bool { return strings.Contains(get(base+"robots.rdf"), base) })
	start(t, filepath.Join(dir, "crawler"), "run", base, "--into", filepath.Join(dir, "crawl"), "--allow-private", "--wait", "0", "--admin", crawler)
	until(t, "stream", func() bool {
		return strings.Contains(get("http://"+crawler+"/metrics"), "parley_crawler_sites_followed 1") && strings.Contains(get("http://"+site+"/metrics"), "parley_subscribers 1")
	})
	page("Welcome back.")
	until(t, "change", func() bool {
		return strings.Contains(get("http://"+crawler+"/metrics"), `parley_crawler_received_total{outcome="`) && strings.Contains(get("http://"+site+"/metrics"), "parley_changes_total 1")
	})
	return site, crawler
}

// Each metric that a query names is one that the programs have.
func TestMetricsOfQueriesExist(t *testing.T) {
	site, crawler := monitored(t)
	has := get("http://"+site+"/metrics") + get("http://"+crawler+"/metrics")
	alerts, panels := queries(t)
	for _, q := range append(alerts, panels...) {
		for _, name := range regexp.MustCompile(`parley_\w+`).FindAllString(q, -1) {
			if name != "parley_refused_total" && !strings.Contains(has, "\n# TYPE "+name+" ") { // nobody was refused here
				t.Errorf("%s: there is no %s", q, name)
			}
		}
	}
}

// Prometheus accepts the rules, and answers every query of the alerts and of the dashboard.
func TestQueriesWithPrometheus(t *testing.T) {
	prometheus, promtool := machine.Tool(t, "prometheus"), machine.Tool(t, "promtool")
	if out, err := exec.Command(promtool, "check", "rules", "rules.yml").CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v: %s", err, out)
	}
	site, crawler := monitored(t)
	text, err := os.ReadFile("prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Abs("rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "prometheus.yml")
	adapted := strings.NewReplacer("127.0.0.1:8640", site, "127.0.0.1:8642", crawler, "15s", "1s", "- rules.yml", "- "+rules).Replace(string(text))
	if err := os.WriteFile(conf, []byte(adapted), 0o644); err != nil {
		t.Fatal(err)
	}
	at := front.FreeAddress()
	start(t, prometheus, "--config.file", conf, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", at)
	ask := func(query string) (results int, err error) {
		var answer struct {
			Status, Error string
			Data          struct{ Result []any }
		}
		body := get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(query))
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			return 0, fmt.Errorf("%q: %w", body, err)
		}
		if answer.Status != "success" {
			return 0, fmt.Errorf("%s", answer.Error)
		}
		return len(answer.Data.Result), nil
	}
	until(t, "scrape of both programs", func() bool {
		n, err := ask(`up{job=~"parley-.*"} == 1 and count_over_time(up[1m]) > 2`)
		return err == nil && n == 2
	})
	alerts, panels := queries(t)
	for _, q := range alerts {
		if _, err := ask(q); err != nil {
			t.Errorf("alert %s: %v", q, err)
		}
	}
	if now := get("http://" + at + "/api/v1/alerts"); !strings.Contains(now, `"status":"success"`) || strings.Contains(now, `"firing"`) {
		t.Errorf("nothing is wrong here, and the alerts are %s", now)
	}
	for _, q := range panels {
		if n, err := ask(q); err != nil || n == 0 && !strings.Contains(q, "parley_refused_total") {
			t.Errorf("%s: %d results, %v", q, n, err)
		}
	}
}
