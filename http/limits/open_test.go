package limits

import (
	"fmt"
	"sync"
	"testing"
)

func TestOpenIsBoundedByAddress(t *testing.T) {
	t.Parallel()
	o := NewOpen(2)
	begin := func(address string, want bool) func() {
		t.Helper()
		end, ok := o.Begin(address)
		if ok != want {
			t.Errorf("%s: %v, want %v", address, ok, want)
		}
		return end
	}
	first := begin("192.0.2.1", true)
	second := begin("192.0.2.1", true)
	begin("192.0.2.1", false)
	other := begin("192.0.2.2", true)
	v6, same := begin("2001:db8::1", true), begin("2001:db8::ffff:2", true)
	begin("2001:db8::3", false) // the same /64
	first()
	first() // a second call has no effect
	third := begin("192.0.2.1", true)
	begin("192.0.2.1", false)
	for _, end := range []func(){second, third, other, v6, same} {
		end()
	}
	if len(o.open) != 0 {
		t.Errorf("remembered: %v", o.open)
	}
}

func TestOpenFromManyGoroutines(t *testing.T) {
	t.Parallel()
	o := NewOpen(5)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 100 {
				if end, ok := o.Begin(fmt.Sprint("192.0.2.", i%3)); ok {
					end()
				}
			}
		})
	}
	wg.Wait()
	if len(o.open) != 0 {
		t.Errorf("remembered: %v", o.open)
	}
}
