package limits

import (
	"strings"
	"sync"
)

// Open limits how many things, such as connections, an address has open in this process.
// IPv6 addresses count by their /64. Its methods are safe for concurrent use.
type Open struct {
	max  int
	mu   sync.Mutex
	open map[string]int
}

// NewOpen returns a bound of max for each address.
func NewOpen(max int) *Open { return &Open{max: max, open: make(map[string]int)} }

// Begin counts one more of the address, and reports whether the limit allows it. end, which
// may be called more than once, uncounts it.
func (o *Open) Begin(address string) (end func(), ok bool) {
	address = network(address)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[address] >= o.max {
		return nil, false
	}
	address = strings.Clone(address) // does not keep the request alive
	o.open[address]++
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.open[address]--; o.open[address] <= 0 {
			delete(o.open, address)
		}
	}), true
}
