// The Caddy web server is not a dependency of Parley: its module is a module of its own.
module github.com/parleyweb/parley/caddy

go 1.26.0

require (
	github.com/caddyserver/caddy/v2 v2.11.0
	github.com/parleyweb/parley v0.0.0-00010101000000-000000000000
)

replace github.com/parleyweb/parley => ../
