package main

import (
	"flag"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/seed"
)

// A preset is an option with its value in a profile.
type preset struct{ option, value string }

// profile returns the options that a profile sets, nil if there is no such profile.
func profile(name string) []preset {
	switch name {
	case "archive":
		return []preset{{"requisites", "true"}, {"requests", "true"}}
	case "search":
		list := []preset{{"text-digest", "true"}, {"changed", "text"}}
		for _, ext := range append(seed.BuiltIn().LogExt, "pdf") {
			list = append(list, preset{"log-ext", ext})
		}
		return list
	case "mirror":
		return []preset{{"store", "mirror"}, {"requisites", "true"}, {"log-ext", "none"}}
	}
	return nil
}

func profileFlag(name *string) command.Flag {
	return command.Bind("profile", name, "begin with the settings of `PROFILE`, which other options override: archive (--requisites --requests), search (--text-digest --changed text, and no files but HTML and text) or mirror (--store mirror --requisites --log-ext none)")
}

// setProfile sets the options of a profile, except for those that are set already. No name, no profile.
func setProfile(fs *flag.FlagSet, name string) error {
	list := profile(name)
	if list == nil && name != "" {
		return command.Misusef("--profile %s: want archive, search or mirror", name)
	}
	set := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for _, p := range list {
		if set[p.option] {
			continue
		}
		if err := fs.Set(p.option, p.value); err != nil {
			return err
		}
	}
	return nil
}
