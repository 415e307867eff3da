package harvest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/parleyweb/parley/internal/inet"
)

// An addressError is an address that is not to be asked.
type addressError struct {
	ip  netip.Addr
	why string
}

func (e *addressError) Error() string { return fmt.Sprintf("%v is %s: not asked", e.ip, e.why) }

// allowed returns an *addressError if an address is not to be asked. It is
// asked of the address that is then connected to, so that a name cannot lead
// elsewhere between the two.
func (h *Harvester) allowed(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("") // no prefix contains an address with a zone
	inner := inet.Plain(ip)
	for _, p := range h.Blocked {
		if p.Contains(ip) || p.Contains(inner) {
			return &addressError{ip, "blocked"}
		}
	}
	if h.Private {
		return nil
	}
	if why := inet.Special(ip); why != "" {
		return &addressError{ip, why}
	}
	return nil
}

// locate returns the addresses at which a site may be asked, of which there is
// at least one.
func (h *Harvester) locate(ctx context.Context, host string) ([]netip.Addr, error) {
	ips, err := h.names.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if bad := slices.IndexFunc(ips, func(ip netip.Addr) bool { return h.allowed(ip) != nil }); bad >= 0 {
		err = h.allowed(ips[bad])
		ips = slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { return h.allowed(ip) != nil })
		if len(ips) == 0 {
			return nil, err
		}
	}
	return ips, nil
}
