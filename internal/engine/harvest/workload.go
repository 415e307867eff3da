package harvest

import "time"

// A workload is the tasks of a cycle that wait, by site and batch. The timetable's lock guards it.
type workload struct {
	tasks  int
	sites  int    // that have waiting tasks
	placed uint64 // the last order number given to a site
	ready  orderHeap

	lastSites, lastTasks int       // that waited when the last batch began, early ones included
	asked                time.Time // when a batch was requested last
	batches              []*open
}

// begin adds a batch whose tasks were added, and returns those that end. When few sites of an
// older batch are left, it ends: their tasks are given back, to be ranked again beside new
// ones. That happens once a batch, and only if at least few sites replace them.
func (w *workload) begin(o *open, early bool, few int) (end []*open) {
	w.lastSites, w.lastTasks = w.sites, w.tasks
	kept := w.batches[:0]
	for _, old := range w.batches {
		switch {
		case old.left == 0:
		case !early && old.began >= few && old.left < few && o.began >= few:
			end = append(end, old)
		default:
			kept = append(kept, old)
		}
	}
	clear(w.batches[len(kept):])
	w.batches = append(kept, o)
	return end
}

// add gives a site tasks of a batch, or on demand if there is none.
func (w *workload) add(s *site, sb SiteBatch, o *open) {
	if len(s.parts) == 0 {
		w.sites++
		w.placed++
		s.order = w.placed
	}
	w.tasks += len(sb.Tasks)
	if o == nil {
		s.demand(sb)
		return
	}
	o.left++
	s.id, s.pages, s.delay = sb.Site, sb.Pages, max(s.delay, sb.Delay) // Pace may have set a newer one than the batch has
	s.parts = append(s.parts, part{batch: o, tasks: sb.Tasks})
}

// remove removes and returns the tasks of a batch for a site.
func (w *workload) remove(s *site, o *open) (tasks []Task) {
	kept := s.parts[:0]
	for _, p := range s.parts {
		if p.batch == o {
			tasks = append(tasks, p.tasks...)
			o.left--
		} else {
			kept = append(kept, p)
		}
	}
	clear(s.parts[len(kept):])
	if s.parts = kept; len(kept) == 0 {
		s.parts = nil
		if len(tasks) > 0 {
			w.sites--
		}
	}
	w.tasks -= len(tasks)
	return tasks
}

// take removes the first task of a site.
func (w *workload) take(s *site) Task {
	p := &s.parts[0]
	t := p.tasks[0]
	if p.tasks = p.tasks[1:]; len(p.tasks) == 0 {
		w.drop(s)
	}
	w.tasks--
	return t
}

// drop removes the first part of a site, which has no tasks left.
func (w *workload) drop(s *site) {
	if b := s.parts[0].batch; b != nil {
		b.left--
	}
	s.parts[0] = part{}
	if s.parts = s.parts[1:]; len(s.parts) == 0 {
		s.parts = nil
		w.sites--
	}
}

// untake puts a task back in front.
func (w *workload) untake(s *site, t Task) {
	if len(s.parts) == 0 {
		w.sites++
	}
	s.parts = append([]part{{tasks: []Task{t}}}, s.parts...)
	w.tasks++
}

// clear removes and returns all tasks of a site.
func (w *workload) clear(s *site) (tasks []Task) {
	for len(s.parts) > 0 {
		tasks = append(tasks, s.parts[0].tasks...)
		w.tasks -= len(s.parts[0].tasks)
		w.drop(s)
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
