package dashboard

import (
	"testing"
)

func TestAClosedPollerReadsNothing(t *testing.T) {
	t.Parallel()
	h := newBench(t, nil).hub
	in := &poller{hub: h}
	listen := func() (socket, *recorder) {
		_, server := tcpPair(t)
		s, r := newSocket(server, func() {}, h.start, in), newRecorder(t)
		s.listen(r)
		return s, r
	}
	open, early := listen()
	in.close()
	_, late := listen()
	<-late.end
	open.Close() // its end is not forgotten
	<-early.end
}

// A client that sends without end must not keep others from being read.
func TestAFloodDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	h := newBench(t, nil).hub
	in := &poller{hub: h}
	defer in.close()
	listen := func() (client interface{ Write([]byte) (int, error) }, r *recorder, s socket) {
		c, server := tcpPair(t)
		s, r = newSocket(server, func() {}, h.start, in), newRecorder(t)
		s.listen(r)
		return c, r, s
	}
	flood, flooded, s := listen()
	quiet, other, _ := listen()
	go func() {
		for _, err := flood.Write(make([]byte, 64<<10)); err == nil; _, err = flood.Write(make([]byte, 64<<10)) {
		}
	}()
	go func() {
		for range flooded.got {
		}
	}()
	for range 100 {
		quiet.Write([]byte("x"))
		<-other.got
	}
	s.Close()
	<-flooded.end
	close(flooded.got)
}

func TestPlacesAreFreed(t *testing.T) {
	t.Parallel()
	h := newBench(t, nil).hub
	in := &poller{hub: h}
	defer in.close()
	for range 10 {
		_, server := tcpPair(t)
		s, r := newSocket(server, func() {}, h.start, in), newRecorder(t)
		s.listen(r)
		s.Close()
		<-r.end
	}
	if len(in.places) > 1 || len(in.free) != len(in.places) {
		t.Errorf("%d of %d places are free, want the one", len(in.free), len(in.places))
	}
}
