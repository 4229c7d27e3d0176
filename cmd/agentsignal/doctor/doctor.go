// Package doctor checks what a service with a given configuration rests on: Redis, its own files and
// limits, the mail server, outgoing connections, and the sources of prices, news and weather.
//
// It works beside a running service, in whose place nothing is changed, and without one. It creates no data
// directory and no data of a Redis. It sends no mail, and connects only to hosts that the configuration
// names, or that belong to a source which it names.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/configs"
)

// State is how grave a Check is.
type State string

// The states, the gravest last.
const (
	OK      State = "ok"
	Warning State = "warning" // the service works; a promise of it may not hold, or soon not
	Fault   State = "fault"   // the service does not start, or a part of it does not work
)

// The areas of checks, in the order in which they are reported.
const (
	areaRedis   = "redis"
	areaMachine = "machine"
	areaMail    = "mail"
	areaOut     = "out"
	areaSources = "sources"
)

// Check is one thing that was looked at.
type Check struct {
	Area  string `json:"area"`
	Name  string `json:"check"`
	State State  `json:"state"`
	Fact  string `json:"fact"` // what was found
	// Meaning is what follows for answers that clients have got, which must be kept, or for a part of the
	// service. It may be empty if the state is OK.
	Meaning string `json:"meaning,omitempty"`
	Do      string `json:"do,omitempty"` // empty if the state is OK
}

// ok, warning and fault return checks without an area.
func ok(name, fact, meaning string) Check { return Check{"", name, OK, fact, meaning, ""} }

func warning(name, fact, meaning, do string) Check {
	return Check{"", name, Warning, fact, meaning, do}
}

func fault(name, fact, meaning, do string) Check { return Check{"", name, Fault, fact, meaning, do} }

// Report is the result of all checks.
type Report struct {
	Checks   []Check `json:"checks"`
	Faults   int     `json:"faults"`
	Warnings int     `json:"warnings"`
}

// Run makes all checks, and those of different areas at the same time. environ has the form of os.Environ. It
// returns at the end of ctx at the latest; checks that did not finish are then faults.
func Run(ctx context.Context, c configs.Config, environ []string) Report {
	var group sync.WaitGroup
	var redis, machine, mail, sources []Check
	var reached reached
	group.Go(func() { redis = checkRedis(ctx, c) })
	group.Go(func() { machine = checkMachine(ctx, c, environ, time.Now()) })
	group.Go(func() { mail = checkMail(ctx, c.Email, &reached) })
	group.Go(func() { sources = checkSources(ctx, c, &reached) })
	group.Wait()
	var r Report
	for _, part := range []struct {
		area   string
		checks []Check
	}{
		{areaRedis, redis}, {areaMachine, machine}, {areaMail, mail}, {areaOut, checkOut(c, environ, &reached)},
		{areaSources, sources},
	} {
		for _, check := range part.checks {
			check.Area, check.Fact, check.Meaning = part.area, command.Printable(check.Fact), command.Printable(check.Meaning)
			r.Checks = append(r.Checks, check)
			switch check.State {
			case Fault:
				r.Faults++
			case Warning:
				r.Warnings++
			case OK:
			}
		}
	}
	return r
}

// reached counts the hosts outside that were tried and that answered.
type reached struct {
	mu              sync.Mutex
	tried, answered int
}

func (r *reached) add(answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried++
	if answered {
		r.answered++
	}
}
