package crawl

import (
	"cmp"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/budget"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
)

// Tests set what neither Options nor Copy has.
type (
	Settings = settings
	Revisit  = budget.Options
	Quality  = rank.Quality
)

// An Engine is a Crawler whose settings can be changed before it runs.
type Engine struct {
	*Crawler
	*Settings
}

func NewEngine(col *collection.Collection, h *harvest.Harvester, s Settings) *Engine {
	s.Seeder = cmp.Or(s.Seeder, &seed.Seeder{})
	return EngineOf(&Crawler{Collection: col, Harvester: h, settings: s})
}

func EngineOf(c *Crawler) *Engine { return &Engine{c, &c.settings} }
