package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	cmap "github.com/orcaman/concurrent-map"
)

// ErrStopped means that the actor has ended without an answer.
var ErrStopped = errors.New("actor has stopped")

// Options configure a System. The zero value works.
type Options struct {
	Log     *slog.Logger // nil to discard
	Metrics *Metrics     // nil to export none
}

// System is a tree of actors. Its methods are safe for concurrent use. Spawn, Alive,
// Shutdown and End block, so actors must not call them from Receive.
type System struct {
	log     *slog.Logger
	metrics *Metrics
	library *actor.ActorSystem
	props   *actor.Props
	timers  *timers
	root    Ref
	work    *workers // goroutines of Context.Go and of mailboxes

	// ending is set when Shutdown begins or is announced.
	ending atomic.Bool

	// degraded is set when a child of the root failed too often.
	degraded atomic.Bool

	spawning sync.Mutex
	next     *cell // the actor being spawned; guarded by spawning

	// inTransition holds actors between two calls of the library that pass only a PID:
	// during a restart, and from the end of a child until its parent is notified.
	transitionMu sync.Mutex
	inTransition map[*actor.PID]*cell
}

// NewSystem starts the root actor. Shutdown ends it.
func NewSystem(o Options) *System {
	s := &System{
		log:          cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("component", "engine"),
		metrics:      o.Metrics,
		timers:       newTimers(),
		inTransition: make(map[*actor.PID]*cell),
		work:         newWorkers(),
	}
	if s.metrics == nil {
		s.metrics = newMetrics()
	}
	s.library = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(warningsOnly{s.log.Handler()})
	}))
	// The library's dead letter log subscribes to the default stream and starts a
	// goroutine that sleeps for a second. Our mailboxes count dead letters themselves.
	s.library.EventStream = eventstream.NewEventStream()
	s.library.ProcessRegistry.LocalPIDs = newRegistry()

	// All actors share one set of properties, because a copy is as large as an actor.
	// The cell being spawned is passed in s.next.
	spawn := func(_ *actor.ActorSystem, _ string, p *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
		return s.start(p, parent)
	}
	s.props = actor.PropsFromProducer(func() actor.Actor { return &shell{sys: s} },
		actor.WithMailbox(func() actor.Mailbox { return (*libraryMailbox)(s.next) }), actor.WithSpawnFunc(spawn))
	s.root = s.spawn(s.newCell(Supervisor, "root", func() Actor { return &root{sys: s} }, Supervision{}),
		func(props *actor.Props) (*actor.PID, error) { return s.library.Root.SpawnNamed(props, "") })
	return s
}

// newRegistry returns an empty registry of processes in 32 maps of 32 parts each. The library has 1,024 of these
// maps, which take 4 MB empty, and 9 MB more once each part has been used.
func newRegistry() *actor.SliceMap {
	r := &actor.SliceMap{LocalPIDs: make([]cmap.ConcurrentMap, 32)}
	for i := range r.LocalPIDs {
		r.LocalPIDs[i] = cmap.New()
	}
	return r
}

// start has the library start an actor whose failures and end are reported to parent. A
// short id saves memory: the library's default is a path of names.
func (s *System) start(props *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
	return actor.DefaultSpawner(s.library, s.library.ProcessRegistry.NextID(), props, parent)
}

func (s *System) newCell(kind Kind, name string, produce func() Actor, sup Supervision) *cell {
	c := &cell{sys: s, mailbox: mailbox{stats: s.metrics.of(kind)}, name: name, produce: produce, sup: &noSupervision}
	if sup != noSupervision {
		own := sup // escapes, unlike sup
		c.sup = &own
	}
	return c
}

// noSupervision is that of most actors, which have no children.
var noSupervision Supervision

// spawn starts the actor c by calling start.
func (s *System) spawn(c *cell, start func(*actor.Props) (*actor.PID, error)) Ref {
	c.mailbox.stats.running.Add(1)
	s.spawning.Lock()
	defer s.spawning.Unlock()
	s.next = c
	if _, err := start(s.props); err != nil {
		panic(fmt.Errorf("spawn %s %s: %w", c.mailbox.stats.kind, c.name, err)) // unreachable: ids are unique
	}
	s.next = nil
	return Ref{c}
}

// keep stores c until claim.
func (s *System) keep(pid *actor.PID, c *cell) {
	s.transitionMu.Lock()
	s.inTransition[pid] = c
	s.transitionMu.Unlock()
}

// claim returns and removes the actor that was kept under pid.
func (s *System) claim(pid *actor.PID) *cell {
	s.transitionMu.Lock()
	defer s.transitionMu.Unlock()
	c := s.inTransition[pid]
	delete(s.inTransition, pid)
	return c
}

// Spawn starts an actor as a child of the root, which restarts it up to 10 times a
// minute; sup applies to the actor's own children. After the start of Shutdown the actor
// is not started, and messages to its Ref are dead letters.
func (s *System) Spawn(kind Kind, name string, produce func() Actor, sup Supervision) Ref {
	ref, err := Ask(context.Background(), s.root, func(reply chan<- Ref) any {
		return spawnRequest{kind: kind, name: name, produce: produce, sup: sup, reply: reply}
	})
	if err != nil || ref.IsZero() {
		return Ref{&cell{sys: s, mailbox: mailbox{stats: s.metrics.of(kind), closed: true}, name: name}}
	}
	return ref
}

// Alive returns nil if the root actor answers before ctx ends and none of its children
// was stopped for failing too often.
func (s *System) Alive(ctx context.Context) error {
	if s.degraded.Load() {
		return errors.New("an actor failed too often and is stopped")
	}
	_, err := Ask(ctx, s.root, func(reply chan<- struct{}) any { return aliveRequest{reply} })
	return err
}

// ShutdownFollows announces Shutdown, for actors that End ends before it: discarded ones then stay
// registered in the library, which is most of the work of ending them.
func (s *System) ShutdownFollows() { s.ending.Store(true) }

// Ending reports whether Shutdown has begun or was announced.
func (s *System) Ending() bool { return s.ending.Load() }

// Shutdown poisons the root's children one after the other, the youngest first, waits
// for each and then for the goroutines of all actors. When ctx ends, it stops the
// remaining children at once and returns ctx's error. It may be called more than once.
func (s *System) Shutdown(ctx context.Context) error {
	s.ending.Store(true)
	children, err := Ask(ctx, s.root, func(reply chan<- []Ref) any { return closeRequest{reply} })
	if errors.Is(err, ErrStopped) {
		err = nil
	}
	for _, child := range slices.Backward(children) {
		child.Tell(poison{})
		if err == nil {
			err = wait(ctx, child.c.mailbox.ended())
		}
	}
	s.root.c.postSystem(stop)
	if err == nil {
		err = wait(ctx, s.root.c.mailbox.ended())
	}
	s.timers.close()
	if err != nil {
		return fmt.Errorf("shut actors down: %w", err)
	}
	done := make(chan struct{})
	go func() {
		s.work.close()
		close(done)
	}()
	if err := wait(ctx, done); err != nil {
		return fmt.Errorf("wait for goroutines of actors: %w", err)
	}
	return nil
}

// End poisons an actor and waits until it has ended, or returns ctx's error.
func (s *System) End(ctx context.Context, r Ref) error {
	if r.c == nil {
		return nil
	}
	r.Tell(poison{})
	if err := wait(ctx, r.c.mailbox.ended()); err != nil {
		return fmt.Errorf("end %s: %w", r, err)
	}
	return nil
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type spawnRequest struct {
	kind    Kind
	name    string
	produce func() Actor
	sup     Supervision
	reply   chan<- Ref
}

type aliveRequest struct{ reply chan<- struct{} }

// closeRequest asks for the children in the order of spawning, and ends spawning.
type closeRequest struct{ reply chan<- []Ref }

// root is the parent of the actors that System.Spawn starts.
type root struct {
	sys      *System
	children []Ref
	closing  bool
}

// Receive implements Actor.
func (r *root) Receive(c Context) {
	switch m := c.Message().(type) {
	case spawnRequest:
		if r.closing {
			m.reply <- Ref{}
			return
		}
		child := c.Spawn(m.kind, m.name, m.produce, m.sup)
		r.children = append(r.children, child)
		m.reply <- child
	case aliveRequest:
		m.reply <- struct{}{}
	case closeRequest:
		r.closing = true
		m.reply <- slices.Clone(r.children)
	case Terminated:
		r.children = slices.DeleteFunc(r.children, func(child Ref) bool { return child == m.Ref })
	}
}

// warningsOnly drops the library's log records below warnings.
type warningsOnly struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (q warningsOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warningsOnly{q.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (q warningsOnly) WithGroup(name string) slog.Handler {
	return warningsOnly{q.Handler.WithGroup(name)}
}
