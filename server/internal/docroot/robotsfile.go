package docroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/public"
)

// robotsEvery is how often a robots.txt is read again for which there are no file events.
const robotsEvery = time.Minute

// prepareRobots sets up the robots.Keeper.
func (s *Site) prepareRobots() {
	s.robots = robots.Keeper{Name: s.robotsName(), Fetch: s.fetchRobots, Wait: s.Settings.RobotsWait, Remind: s.Settings.RobotsRemind, Hurry: s.Settings.Hurry, Log: s.Settings.Log, Notes: s.Settings.Notes}
}

// robotsName returns the path or the URL of robots.txt.
func (s *Site) robotsName() string {
	origin := protocol.Origin(s.urls.base)
	switch {
	case s.Settings.Robots != "":
		return s.Settings.Robots
	case s.urls.base != origin+"/":
		return origin + "/robots.txt"
	}
	return filepath.Join(s.Settings.Docroot, "robots.txt")
}

// robotsRest bounds how long a scan waits for a robots.txt that is being written.
const robotsRest = time.Second

// readRules reads robots.txt after its debounce, or takes the stored rules if it keeps being written: half a
// robots.txt forbids less than a whole one. No View of the Journal is open.
func (s *Site) readRules(ctx context.Context, t *tree) (*robots.Rules, error) {
	name, ok := s.robotsFile(t)
	for begin := time.Now(); ok && s.settling.hasPath(name) && time.Since(begin) < robotsRest && pause.For(ctx, 5*time.Millisecond); {
	}
	if ok && s.settling.hasPath(name) {
		rules, err := s.robots.Load()
		if rules == nil && err == nil {
			err = errors.New("robots.txt: the file is being written")
		}
		return rules, err
	}
	return s.robots.Refresh(ctx)
}

// robotsFile returns the path of robots.txt if it is a file. If that is a symbolic link, it is the link's own
// path.
func (s *Site) robotsFile(t *tree) (name string, ok bool) {
	switch name = s.robotsName(); {
	case public.IsURL(name):
		return name, false
	case s.Settings.Robots == "":
		return filepath.Join(t.path, "robots.txt"), true
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return name, true
	}
	dir, _, err := follow("", filepath.Dir(abs))
	if err != nil {
		return abs, true
	}
	return filepath.Join(dir, filepath.Base(abs)), true
}

// fetchRobots returns the content of robots.txt, or nil if there is none. The docroot's robots.txt need not
// exist, and a URL may answer 404 or 410; a file that the settings name must exist.
func (s *Site) fetchRobots(ctx context.Context) ([]byte, error) {
	name := s.robotsName()
	if public.IsURL(name) {
		b, err := public.ReadRobots(ctx, name)
		if err != nil && s.Settings.Robots == "" {
			err = fmt.Errorf("%w (a site below a path uses its host's robots.txt: if that cannot be fetched from here, set --robots to it or to a copy)", err)
		}
		return b, err
	}
	t, err := openTree(s.Settings.Docroot)
	if err != nil {
		return nil, err
	}
	defer t.close()
	name, _ = s.robotsFile(t)
	if s.Settings.Robots == "" {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return public.ReadRobots(ctx, name)
}

// AcceptRobots makes the next full scan accept robots.txt as it is then.
func (s *Site) AcceptRobots() {
	if s.Check() == nil {
		s.robots.Hasten()
	}
}

// RobotsProblem returns a problem of robots.txt that a person should know, whether it has been logged, and whether
// the file is missing or has lost its rules.
func (s *Site) RobotsProblem() (trouble string, logged, lost bool) {
	return s.robots.Trouble(), s.robots.Said(), s.robots.Current().Lost()
}

// PublicTo reports whether robots.txt allows a public URL to the product token name.
func (s *Site) PublicTo(name, url string) bool {
	places := s.publicPlaces(url)
	rules := s.robots.Current()
	for _, place := range places {
		if _, file := splitPlace(place); s.allowedTo(name, rules, file, url) {
			return true
		}
	}
	return false
}
