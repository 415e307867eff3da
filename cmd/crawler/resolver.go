package main

import (
	"context"
	"net"
)

// resolverAt returns a resolver that uses only this name server.
func resolverAt(address string) *net.Resolver {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "53")
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}
