package dashboard

import "testing"

func TestAClosedPollerReadsNothing(t *testing.T) {
	t.Parallel()
	in := &poller{hub: newBench(t, nil).hub}
	_, open, early := listenOn(t, in)
	in.close()
	_, _, late := listenOn(t, in)
	<-late.end
	open.Close() // its end is not forgotten
	<-early.end
}

// A client that sends without end must not keep others from being read.
func TestAFloodDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	in := &poller{hub: newBench(t, nil).hub}
	defer in.close()
	flood, s, flooded := listenOn(t, in)
	quiet, _, other := listenOn(t, in)
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
	in := &poller{hub: newBench(t, nil).hub}
	defer in.close()
	for range 10 {
		_, s, r := listenOn(t, in)
		s.Close()
		<-r.end
	}
	if len(in.places) > 1 || len(in.free) != len(in.places) {
		t.Errorf("%d of %d places are free, want the one", len(in.free), len(in.places))
	}
}
