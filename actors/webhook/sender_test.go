package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// sent is one attempt of a fakeSender.
type sent struct {
	sender.Request
	ended     time.Time // zero while it is in flight
	cancelled bool
	succeeded bool
}

// answer is the behaviour of an endpoint.
type answer func(ctx context.Context, r sender.Request) sender.Result

// fakeSender answers as scripted by a test. Its zero value answers 200 at once.
type fakeSender struct {
	mu      sync.Mutex
	answer  answer // nil for success at once
	all     []*sent
	running map[string]int // by URL
	peaks   map[string]int
}

func (f *fakeSender) Send(ctx context.Context, r sender.Request) sender.Result {
	f.mu.Lock()
	if f.running == nil {
		f.running, f.peaks = map[string]int{}, map[string]int{}
	}
	s := &sent{Request: r}
	f.all = append(f.all, s)
	f.running[r.To.URL]++
	f.peaks[r.To.URL] = max(f.peaks[r.To.URL], f.running[r.To.URL])
	answer := f.answer
	f.mu.Unlock()
	if answer == nil {
		answer = answers200
	}
	result := answer(ctx, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[r.To.URL]--
	s.ended = time.Now()
	s.cancelled = ctx.Err() != nil
	s.succeeded = !s.cancelled && result.Error == ""
	return result
}

// byEffect compares destinations by their URLs and signatures.
var byEffect = cmp.Comparer(func(a, b *sender.Destination) bool {
	sign := func(d *sender.Destination) string {
		return string(d.Signers.AppendStandard(d.Signers.Append(nil, []byte("body")), "evt_1", 1, []byte("body")))
	}
	return a.URL == b.URL && sign(a) == sign(b)
})

// script sets the answers to later requests.
func (f *fakeSender) script(a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = a
}

// sent returns the attempts so far, to any URL or to one.
func (f *fakeSender) sent(url ...string) (list []sent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.all {
		if len(url) == 0 || s.To.URL == url[0] {
			list = append(list, *s)
		}
	}
	return list
}

// peak returns the maximum of concurrent attempts to a URL since the last call.
func (f *fakeSender) peak(url string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.peaks[url]
	f.peaks[url] = 0
	return n
}

// answers200 is the answer 200.
func answers200(_ context.Context, r sender.Request) sender.Result {
	return sender.Result{At: r.At, Status: 200, Class: sender.ClassSuccess}
}

// answers503 is the answer 503.
func answers503(_ context.Context, r sender.Request) sender.Result {
	return sender.Result{At: r.At, Status: 503, Class: sender.ClassServerError, Error: "status 503"}
}

// after delays an answer, unless the request is cancelled.
func after(d time.Duration, a answer) answer {
	return func(ctx context.Context, r sender.Request) sender.Result {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return sender.Result{At: r.At, Error: delivery.Cancelled}
		}
		result := a(ctx, r)
		result.Duration = d
		return result
	}
}

// hangs does not answer until the attempt times out.
var hangs = after(15*time.Second, func(_ context.Context, r sender.Request) sender.Result {
	return sender.Result{At: r.At, Class: sender.ClassTimeout, Error: "timeout"}
})
