//go:build linux

package anysite

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// An nginx serves one site with the configuration that Parley ships.
type nginx struct {
	dir, address, scheme string
	site                 *site
	cmd                  *exec.Cmd
	shipped              string
}

func (w *world) startNginx(ctx context.Context, s *site) (*nginx, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil, &Unmet{"nginx"}
	}
	shipped, err := os.ReadFile(filepath.Join("..", "..", "examples", "nginx", "parley.conf"))
	if err != nil {
		return nil, err
	}
	n := &nginx{dir: filepath.Join(w.dir, "nginx"), site: s, shipped: string(shipped), scheme: "http"}
	n.address = w.freeAddress()
	if s.Front == "nginx-tls" {
		n.scheme = "https"
		c, err := w.certs.of(s.front.ip, false)
		if err != nil {
			return nil, err
		}
		if err := writeCertificate(filepath.Join(w.dir, "nginx.pem"), c); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return nil, err
	}
	if err := n.configure(w); err != nil {
		return nil, err
	}
	n.cmd = exec.Command(path, "-c", filepath.Join(n.dir, "nginx.conf"), "-p", n.dir, "-e", filepath.Join(n.dir, "error.log"))
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if c, err := net.Dial("tcp", n.address); err == nil {
			return n, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	text, _ := os.ReadFile(filepath.Join(n.dir, "error.log"))
	return n, fmt.Errorf("nginx does not listen: %s", text)
}

// configure writes the configuration: the shipped one, with the lines that it leaves to the operator, and the
// site's protection, as the manual says.
func (n *nginx) configure(w *world) error {
	s := n.site
	conf := n.shipped
	listen := "listen " + n.address + ";"
	if n.scheme == "https" {
		listen = "listen " + n.address + " ssl http2; ssl_certificate " + filepath.Join(w.dir, "nginx.pem") + "; ssl_certificate_key " + filepath.Join(w.dir, "nginx.pem") + ";"
	}
	for _, r := range [][2]string{{"server 127.0.0.1:8639;", "server " + s.door + ";"}, {"listen 80;", listen}, {"server_name www.example.org;", "server_name _;"}, {"root /var/www/html;", "root " + s.root + ";"}} {
		if !strings.Contains(conf, r[0]) {
			return fmt.Errorf("the shipped nginx configuration has no %q", r[0])
		}
		conf = strings.Replace(conf, r[0], r[1], 1)
	}
	pages, err := filepath.Abs(filepath.Join("..", "..", "examples", "nginx", "parley-pages.conf"))
	if err != nil {
		return err
	}
	conf = strings.ReplaceAll(conf, "/etc/nginx/parley-pages.conf", pages)
	include := ""
	if _, err := os.Stat(pages); err == nil && s.notified() {
		include = "include " + pages + "; "
	}
	if s.Path != "/" {
		conf = strings.NewReplacer("= /robots.rdf", "= "+s.Path+"robots.rdf", "^~ /robots.rdf", "^~ "+s.Path+"robots.rdf", "location /parley/", "location "+s.Path+"parley/", "= /parley/", "= "+s.Path+"parley/").Replace(conf)
	}
	if !s.notified() { // there is no notifier whose lines nginx could include
		conf = "server { " + listen + " root " + s.root + "; index index.html;\n}\n"
	}
	var own strings.Builder
	s.mu.Lock()
	for prefix, mode := range s.guard {
		rule := map[string]string{"401": `auth_basic members; auth_basic_user_file ` + n.dir + `/nobody;`, "403": "deny all;", "address": "allow 127.0.0.1; deny all;"}[mode]
		fmt.Fprintf(&own, "    location %s%s { %s%s }\n", s.Path, prefix, include, rule)
	}
	s.mu.Unlock()
	if end := strings.LastIndexByte(conf, '}'); end > 0 {
		conf = conf[:end] + own.String() + "}\n"
	}
	if err := os.WriteFile(filepath.Join(n.dir, "nobody"), nil, 0o644); err != nil {
		return err
	}
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("  %s_temp_path %s/%s;\n", kind, n.dir, kind)
	}
	text := "daemon off; worker_processes 1; pid " + n.dir + "/pid;\nevents { worker_connections 256; }\nhttp {\n  access_log off; default_type application/octet-stream;\n  types { text/html html; text/css css; text/plain txt md; application/json json; application/pdf pdf; application/zip zip; application/rdf+xml rdf; application/xml xml; }\n" + temp + conf + "}\n"
	return os.WriteFile(filepath.Join(n.dir, "nginx.conf"), []byte(text), 0o644)
}

// reload makes nginx read its configuration, and waits until the new one is in force.
func (n *nginx) reload(w *world) error {
	if err := n.configure(w); err != nil {
		return err
	}
	if err := exec.Command("nginx", "-c", filepath.Join(n.dir, "nginx.conf"), "-p", n.dir, "-e", filepath.Join(n.dir, "error.log"), "-s", "reload").Run(); err != nil {
		return err
	}
	time.Sleep(60 * time.Millisecond) // the new workers run by then; otherwise the next look would show the old rules
	return nil
}

// stop terminates nginx with its workers: the workers of a killed master would live on.
func (n *nginx) stop() {
	n.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(5*time.Second, func() { n.cmd.Process.Kill() })
	defer late.Stop()
	n.cmd.Wait()
}
