// Package parleycaddy is a module of the Caddy web server: the directive parley publishes the changes of the site in whose block it stands,
// as the notifier does beside another web server. Requests for the doors (robots.rdf, parley/... and .well-known/parley below the base URL)
// are answered by package doors, all others by the next handler, such as file_server.
//
//	www.example.org {
//		root * /var/www/html
//		parley {
//			base https://www.example.org/
//			docroot /var/www/html
//		}
//		file_server
//	}
package parleycaddy

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/doors"
)

// Caddy finds modules by what they register when the program starts.
func init() {
	caddy.RegisterModule(new(Handler))
	caddy.RegisterModule(new(app))
	httpcaddyfile.RegisterHandlerDirective("parley", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	// After redirects and passwords, which hold for the doors too; before whatever answers.
	httpcaddyfile.RegisterDirectiveOrder("parley", httpcaddyfile.Before, "encode")
}

// A Handler serves the doors of a site.
type Handler struct {
	options
	doors string // path of the base URL, below which the doors are
	site  *site
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

// CaddyModule implements caddy.Module.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.parley", New: func() caddy.Module { return new(Handler) }}
}

// UnmarshalCaddyfile reads the directive. Its options have the names of the notifier's.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if d.Next(); d.NextArg() {
		return d.ArgErr()
	}
	fields, set := h.fields(), map[string]bool{}
	for d.NextBlock(0) {
		name := d.Val()
		values := d.RemainingArgs()
		_, isList := fields[name].(*[]string)
		_, isFlag := fields[name].(*bool)
		switch {
		case fields[name] == nil:
			return d.Errf("unknown option %q: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case set[name] && !isList:
			return d.Errf("option %s is set twice", name)
		case isFlag && len(values) > 0, !isFlag && len(values) == 0, !isFlag && !isList && len(values) > 1:
			return d.ArgErr()
		}
		set[name] = true
		switch to := fields[name].(type) {
		case *string:
			*to = values[0]
		case *[]string:
			*to = append(*to, values...)
		case *bool:
			*to = true
		case *caddy.Duration:
			t, err := caddy.ParseDuration(values[0])
			if err != nil {
				return d.Errf("option %s: %v", name, err)
			}
			*to = caddy.Duration(t)
		}
	}
	return nil
}

// Provision checks the options, and finds the site that has them. It is started when all of the config has been provisioned.
func (h *Handler) Provision(ctx caddy.Context) error {
	if err := h.check(); err != nil {
		return fmt.Errorf("parley: %w", err)
	}
	base, err := url.Parse(h.Base)
	if err != nil {
		return fmt.Errorf("parley: base: %w", err)
	}
	h.doors = base.Path
	a, err := ctx.App("parley")
	if err != nil {
		return err
	}
	if h.site, err = a.(*app).use(h.options, ctx.Slogger()); err != nil {
		return fmt.Errorf("parley: %w", err)
	}
	// At the end of the process, the server waits for all requests before Caddy cleans up; streams and long polls end only with the site.
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		server.RegisterOnShutdown(func() {
			if caddy.Exiting() {
				h.site.end()
			}
		})
	}
	return nil
}

// isDoor reports whether requests for a path are for the site's doors.
func (h *Handler) isDoor(path string) bool {
	below, ok := strings.CutPrefix(path, h.doors)
	return ok && doors.IsDoor(below) || path == "/"+protocol.DiscoveryPath
}

// ServeHTTP serves the doors, and leaves everything else to the next handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	asked := r.URL // as the client wrote it: try_files and handle_path rewrite the paths of files
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		asked = original.URL
	}
	if !h.isDoor(asked.Path) {
		return next.ServeHTTP(w, r)
	}
	notifier := h.site.enter()
	if notifier == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the site is starting or stopping: try again soon", http.StatusServiceUnavailable)
		return nil
	}
	defer h.site.leave()
	r = r.WithContext(r.Context())
	r.URL = asked
	if client, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok && client != "" {
		r.RemoteAddr = client // which Caddy's trusted_proxies decides; limits are per client
	}
	notifier.ServeHTTP(w, r)
	return nil
}
