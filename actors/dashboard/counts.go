package dashboard

import (
	"sort"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// milestoneEvery is the number of log entries between two milestones.
const milestoneEvery = 1000

// entryCounts keeps a lower bound of the number of log entries between two positions,
// from the entries published on this node and from reads that were found too long. With
// it a resume that reaches back too far is refused without a read. Its methods are safe
// for concurrent use.
type entryCounts struct {
	age time.Duration // older milestones are dropped, because no resume reaches them

	mu    sync.Mutex
	parts map[int]*counted
}

// counted holds the milestones of one log.
type counted struct {
	entries int64 // the number of the newest entry; the count may begin at any entry
	// milestones are ascending. Entries that a gap has hidden are not counted.
	milestones []milestone
}

// milestone is the number of the entry at a position, or a lower number if some entries
// before it were not seen.
type milestone struct {
	at     signal.Position
	number int64
}

func newEntryCounts(age time.Duration) *entryCounts {
	return &entryCounts{age: age, parts: make(map[int]*counted)}
}

func (x *entryCounts) of(partition int) *counted {
	c := x.parts[partition]
	if c == nil {
		c = &counted{}
		x.parts[partition] = c
	}
	return c
}

// published counts n entries of partition, up to the position last.
func (x *entryCounts) published(partition int, last signal.Position, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.of(partition)
	c.entries += int64(n)
	if k := len(c.milestones); k > 0 && c.entries-c.milestones[k-1].number < milestoneEvery {
		return
	}
	c.milestones = append(c.milestones, milestone{last, c.entries})
	old := 0
	for old < len(c.milestones)-1 && last.Time().Sub(c.milestones[old+1].at.Time()) > x.age {
		old++
	}
	c.milestones = c.milestones[old:]
}

// read adds the ascending milestones of a read that are older than the known ones.
func (x *entryCounts) read(partition int, milestones []milestone) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.of(partition)
	if len(c.milestones) > 0 {
		n := 0
		for n < len(milestones) && milestones[n].at.Compare(c.milestones[0].at) < 0 {
			n++
		}
		milestones = milestones[:n]
	}
	if len(milestones) == 0 {
		return
	}
	if len(c.milestones) > 0 { // the entries between the two lists are not counted
		shift := c.milestones[0].number - milestones[len(milestones)-1].number
		for i := range milestones {
			milestones[i].number += shift
		}
	} else {
		c.entries = milestones[len(milestones)-1].number
	}
	c.milestones = append(milestones, c.milestones...)
}

// exceed reports whether more than limit entries of partition are known to lie between
// two positions; the zero until means the end of the log.
func (x *entryCounts) exceed(partition int, from, until signal.Position, limit int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.parts[partition]
	if c == nil {
		return false
	}
	first := sort.Search(len(c.milestones), func(i int) bool {
		return c.milestones[i].at.Compare(from) >= 0
	})
	last := len(c.milestones)
	if !until.IsZero() {
		last = sort.Search(len(c.milestones), func(i int) bool {
			return c.milestones[i].at.Compare(until) > 0
		})
	}
	return first < last && c.milestones[last-1].number-c.milestones[first].number > int64(limit)
}
