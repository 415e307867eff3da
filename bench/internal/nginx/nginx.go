// Package nginx runs an nginx for a measurement: sites on loopback addresses, one worker, no compression, and
// every request in a readable log.
package nginx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Site is a docroot to serve.
type Site struct {
	Root    string
	Sidecar string // address of the notifier that serves the doors; empty means none
}

// A Server is a running nginx. It is not safe for concurrent use.
type Server struct {
	Bases []string // URL of each site, with a slash at the end

	cmd   *exec.Cmd
	log   *os.File
	read  int64 // bytes of the log already read
	marks int
	ports map[string]int // number of the site at each port
}

// A Request is a line of the log.
type Request struct {
	Site     int // number of the site
	Status   int
	Down, Up int64 // bytes of the whole response, and of the request
	Method   string
	Path     string // with its query, as requested
}

// Start runs nginx with its files in a directory until Close is called or ctx ends.
func Start(ctx context.Context, dir string, sites ...Site) (_ *Server, err error) {
	bin, err := exec.LookPath("nginx")
	if err != nil {
		return nil, err
	}
	s := &Server{ports: map[string]int{}}
	access := filepath.Join(dir, "access.log")
	var conf strings.Builder
	if os.Getuid() == 0 {
		conf.WriteString("user root;\n")
	}
	fmt.Fprintf(&conf, `daemon off; master_process off;
pid %[1]s/nginx.pid; error_log %[1]s/error.log;
events { worker_connections 1024; }
http {
	include /etc/nginx/mime.types;
	charset utf-8;
	log_format bench '$server_port $status $bytes_sent $request_length $request_method $request_uri';
	access_log %[2]s bench;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	map "$http_accept_encoding $http_available_dictionary" $version { "~dcz.* :" 1; default ""; }
	sendfile on; tcp_nopush on; keepalive_requests 1000000; absolute_redirect off;
`, dir, access)
	var free []net.Listener
	for i, site := range sites {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		free = append(free, ln)
		addr := ln.Addr().String()
		_, port, _ := net.SplitHostPort(addr)
		s.ports[port] = i
		s.Bases = append(s.Bases, "http://"+addr+"/")
		fmt.Fprintf(&conf, "\tserver {\n\t\tlisten %s; root %s; index index.html;\n", addr, site.Root)
		if site.Sidecar != "" {
			fmt.Fprintf(&conf, `		location = /robots.rdf { proxy_pass http://%[1]s; }
		location = /.well-known/parley { proxy_pass http://%[1]s; }
		location = /parley/batch {
			proxy_pass http://%[1]s; proxy_http_version 1.1; proxy_read_timeout 90s;
			proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr; client_max_body_size 9m;
			proxy_buffer_size 64k; proxy_buffers 4 64k;
		}
		location /parley/ {
			proxy_pass http://%[1]s; proxy_http_version 1.1; proxy_read_timeout 90s;
			proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
			proxy_set_header X-Forwarded-For $remote_addr; client_max_body_size 9m;
		}
		location / { error_page 418 = @version; if ($version) { return 418; } }
		location @version { proxy_pass http://%[1]s; }
`, site.Sidecar)
		}
		conf.WriteString("\t}\n")
	}
	conf.WriteString("}\n")
	for _, ln := range free {
		ln.Close()
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf.String()), 0o644); err != nil {
		return nil, err
	}
	var said strings.Builder
	s.cmd = exec.CommandContext(ctx, bin, "-c", file, "-p", dir)
	s.cmd.Stdout, s.cmd.Stderr = &said, &said
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("nginx: %w: %s", err, said.String())
		}
	}()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(s.mark())
		if err == nil {
			resp.Body.Close()
			break
		}
		if time.Since(began) > 10*time.Second {
			return nil, err
		}
	}
	s.log, err = os.Open(access)
	return s, err
}

// PID returns the process that does all the work.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Close kills nginx.
func (s *Server) Close() {
	if s.log != nil {
		s.log.Close()
	}
	s.cmd.Process.Kill()
	s.cmd.Wait() // its error is that it was killed
}

// marks are our own requests: all log lines before a mark are complete.
const markPrefix = "/.mark-"

func (s *Server) mark() string {
	s.marks++
	return s.Bases[0] + strings.TrimPrefix(fmt.Sprint(markPrefix, s.marks), "/")
}

// Requests returns the requests logged since the last call.
func (s *Server) Requests() ([]Request, error) {
	resp, err := http.Get(s.mark())
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	last := fmt.Sprint(markPrefix, s.marks)
	var list []Request
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
		if _, err := s.log.Seek(s.read, io.SeekStart); err != nil {
			return nil, err
		}
		for r := bufio.NewReader(s.log); ; {
			line, err := r.ReadString('\n')
			if err == io.EOF {
				break // the line is still being written
			} else if err != nil {
				return nil, err
			}
			s.read += int64(len(line))
			q, err := s.parse(line)
			switch {
			case err != nil:
				return nil, err
			case q.Path == last:
				return list, nil
			case !strings.HasPrefix(q.Path, markPrefix):
				list = append(list, q)
			}
		}
	}
	return nil, errors.New("the end of nginx's log was not reached")
}

func (s *Server) parse(line string) (q Request, err error) {
	f := strings.Fields(line)
	if len(f) != 6 {
		return q, fmt.Errorf("malformed line in nginx's log: %q", line)
	}
	q.Site, q.Method, q.Path = s.ports[f[0]], f[4], f[5]
	q.Status, err = strconv.Atoi(f[1])
	if err == nil {
		q.Down, err = strconv.ParseInt(f[2], 10, 64)
	}
	if err == nil {
		q.Up, err = strconv.ParseInt(f[3], 10, 64)
	}
	return q, err
}
