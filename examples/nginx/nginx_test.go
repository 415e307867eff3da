// Package nginx is an example of a deployment, with tests that nginx accepts its configuration and that the
// commands know the options in its files.
package nginx

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
)

func TestServerBlock(t *testing.T) {
	nginx := machine.Tool(t, "nginx")
	dir := t.TempDir()
	text, err := os.ReadFile("parley.conf")
	if err != nil {
		t.Fatal(err)
	}
	// While nginx tests a configuration, it listens for a moment: not on port 80, which may be in use.
	block := bytes.Replace(text, []byte("listen 80;"), []byte("listen unix:"+dir+"/sock;"), 1)
	pages, err := filepath.Abs("parley-pages.conf")
	if err != nil {
		t.Fatal(err)
	}
	block = bytes.Replace(block, []byte("/etc/nginx/parley-pages.conf"), []byte(pages), 1)
	whole := fmt.Sprintf("events {}\npid %[1]s/pid;\nerror_log %[1]s/error.log;\nhttp {\naccess_log off;\nclient_body_temp_path %[1]s/b;\n"+
		"proxy_temp_path %[1]s/p;\nfastcgi_temp_path %[1]s/f;\nuwsgi_temp_path %[1]s/u;\nscgi_temp_path %[1]s/s;\n%[2]s\n}\n", dir, block)
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(nginx, "-t", "-q", "-c", conf, "-p", dir).CombinedOutput(); err != nil {
		t.Errorf("nginx -t: %v\n%s", err, out)
	}
}

// Each option in the files is an option of its command.
func TestOptionsInFilesExist(t *testing.T) {
	for command, files := range map[string][]string{
		"rdfgen":   {"parley-rdfgen.service", "parley.cron"},
		"notifier": {"parley-notifier.service", "compose.yaml", "Dockerfile"},
	} {
		help, err := exec.Command("go", "run", "../../cmd/"+command, "--help-all").Output()
		if err != nil {
			t.Fatalf("%s --help-all: %v", command, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(string(text), "\n") {
				if strings.HasPrefix(line, "#") {
					continue
				}
				for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t=:\"", r) }) {
					if name, ok := strings.CutPrefix(word, "PARLEY_"); ok {
						word = "--" + strings.ReplaceAll(strings.ToLower(name), "_", "-")
					}
					if strings.HasPrefix(word, "--") && word != "--from" && word != "--chown" && !bytes.Contains(help, []byte("\n  "+word+" ")) {
						t.Errorf("%s: %s has no %s", file, command, word)
					}
				}
			}
		}
	}
}
