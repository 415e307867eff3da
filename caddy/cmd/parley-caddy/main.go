// Parley-caddy is the Caddy web server with its standard modules and the directive parley.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/parleyweb/parley/caddy"
)

func main() { caddycmd.Main() }
