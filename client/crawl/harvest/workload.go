package harvest

// drop removes the first part of a site, which has no tasks left. The lock is held.
func (c *cycle) drop(s *site) {
	if b := s.parts[0].batch; b != nil {
		b.left--
	}
	s.parts[0] = part{}
	if s.parts = s.parts[1:]; len(s.parts) == 0 {
		s.parts = nil
		c.sites--
	}
}

// untake puts a task back in front. The lock is held.
func (c *cycle) untake(s *site, t Task) {
	if len(s.parts) == 0 {
		c.sites++
	}
	s.parts = append([]part{{tasks: []Task{t}}}, s.parts...)
	c.tasks++
}

// clear removes and returns all tasks of a site. The lock is held.
func (c *cycle) clear(s *site) (tasks []Task) {
	for len(s.parts) > 0 {
		tasks = append(tasks, s.parts[0].tasks...)
		c.tasks -= len(s.parts[0].tasks)
		c.drop(s)
	}
	return tasks
}

// demand puts tasks before all others. Values known of the site win if they are
// larger.
func (s *site) demand(sb SiteBatch) {
	s.id, s.pages, s.delay = sb.Site, max(s.pages, sb.Pages), max(s.delay, sb.Delay)
	s.parts = append([]part{{tasks: sb.Tasks}}, s.parts...)
	s.order = 0
}
