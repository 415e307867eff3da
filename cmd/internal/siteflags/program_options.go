package siteflags

// NotifierOnly names the options that only notifier has. Rdfgen ignores them in a configuration file, so that
// both can use the same one; a test keeps the list complete.
func NotifierOnly() []string {
	names := []string{"listen", "admin", "admin-token", "grace", "look-every", "write-every", "heartbeat", "max-subscribers", "per-address", "trusted-proxy",
		"welcome-rate", "welcome-connections", "welcome-batch",
		"no-self-check", "log", "log-creds", "door"}
	for _, o := range new(Flags).DoorOptions() {
		names = append(names, o.Name)
	}
	return names
}

// RdfgenOnly names the options that only rdfgen has.
func RdfgenOnly() []string {
	return []string{"dry-run", "self-check", "accept-deletions", "robots-now", "verbose", "json"}
}
