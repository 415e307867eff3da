package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// notifierUnit is the unit of the packages too.
//
//go:embed parley-notifier.service
var notifierUnit string

const unitName = "parley-notifier.service"

func (s *setup) hasUnit() bool {
	for _, dir := range []string{"etc", "lib", "usr/lib"} {
		if isFile(s.below(dir + "/systemd/system/" + unitName)) {
			return true
		}
	}
	return false
}

// planUnit returns the notifier's unit of systemd, unless there is one, and a file that lets it read a docroot below /home.
func (s *setup) planUnit() (edits []edit, err error) {
	dir := s.below("etc/systemd/system")
	if _, err := os.Stat(dir); err != nil {
		return nil, nil
	}
	add := func(path, text string) {
		e, wrong := editOf(filepath.Join(dir, path))
		if err = wrong; err == nil && e.info == nil { // else it is somebody's own
			e.now = text
			edits = append(edits, e)
		}
	}
	if !s.hasUnit() {
		program, user := "", ""
		for _, path := range []string{"/usr/local/bin/notifier", "/usr/bin/notifier"} {
			if program == "" && isFile(s.below(path)) {
				program = path
			}
		}
		users, _ := os.ReadFile(s.below("etc/passwd"))
		for _, name := range []string{"www-data", "nginx", "apache", "http", "caddy"} {
			if user == "" && strings.Contains("\n"+string(users), "\n"+name+":") {
				user = name
			}
		}
		if program == "" || user == "" {
			fmt.Fprintln(s.env.Stdout, "No unit of systemd is written: that needs the notifier in /usr/local/bin, and the web server's user (www-data, nginx, apache, http or caddy).")
			return nil, nil
		}
		add(unitName, strings.NewReplacer("/usr/bin/notifier", program, "User=www-data", "User="+user).Replace(notifierUnit))
	}
	docroot, wrong := filepath.EvalSymlinks(s.docroot)
	if wrong == nil && err == nil && strings.HasPrefix(docroot, s.below("home")+"/") {
		add(unitName+".d/home.conf", "# The docroot is below /home.\n[Service]\nProtectHome=read-only\n")
	}
	return edits, err
}
