package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
)

// ErrStopped says that the actor asked has ended.
var ErrStopped = errors.New("actor has stopped")

// Options are what a System is made with. The zero value works.
type Options struct {
	Log     *slog.Logger // nil: none
	Metrics *Metrics     // nil: none
}

// System is a tree of actors. Its methods may be called from anywhere except that
// Spawn, Alive and Shutdown wait, so no actor may call them from Receive.
type System struct {
	log     *slog.Logger
	metrics *Metrics
	library *actor.ActorSystem
	props   *actor.Props
	timers  *timers
	root    Ref
	work    *workers // goroutines of Context.Go and of mailboxes

	// ending is set when Shutdown begins.
	ending atomic.Bool

	// crippled is set when a child of the root failed too often.
	crippled atomic.Bool

	spawning sync.Mutex
	next     *cell // the actor being spawned; guarded by spawning

	// limbo holds actors between two calls of the library that name them by PID
	// only: a restart, and a death of which the parent is yet to hear.
	limboMu sync.Mutex
	limbo   map[*actor.PID]*cell
}

// NewSystem starts the root actor. Shutdown ends it.
func NewSystem(o Options) *System {
	s := &System{log: o.Log, metrics: o.Metrics, timers: newTimers(), limbo: make(map[*actor.PID]*cell), work: newWorkers()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With("component", "engine")
	if s.metrics == nil {
		s.metrics = newMetrics()
	}
	s.library = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(quiet{s.log.Handler()})
	}))
	// The library's dead letter log lives on this stream, and starts a goroutine
	// that sleeps for a second. Mailboxes here count dead letters themselves.
	s.library.EventStream = eventstream.NewEventStream()

	// All actors share one set of properties, because a copy is as large as an
	// actor: the cell being spawned is handed over in s.next.
	s.props = actor.PropsFromProducer(func() actor.Actor { return &shell{sys: s} },
		actor.WithMailbox(func() actor.Mailbox { return s.next }),
		actor.WithSpawnFunc(func(_ *actor.ActorSystem, _ string, p *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
			return s.start(p, parent)
		}))
	s.root = s.spawn(s.newCell(Supervisor, "root", func() Actor { return &root{sys: s} }, Supervision{}),
		func(props *actor.Props) (*actor.PID, error) { return s.library.Root.SpawnNamed(props, "") })
	return s
}

// start has the library start an actor of whose failures and end parent is notified. A path
// of names as id, the library's default, would be kept for each actor.
func (s *System) start(props *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
	return actor.DefaultSpawner(s.library, s.library.ProcessRegistry.NextId(), props, parent)
}

func (s *System) newCell(kind Kind, name string, produce func() Actor, sup Supervision) *cell {
	return &cell{sys: s, stats: s.metrics.of(kind), name: name, produce: produce, sup: sup}
}

// spawn starts the actor c by start.
func (s *System) spawn(c *cell, start func(*actor.Props) (*actor.PID, error)) Ref {
	c.stats.running.Add(1)
	s.spawning.Lock()
	defer s.spawning.Unlock()
	s.next = c
	if _, err := start(s.props); err != nil {
		panic(fmt.Errorf("spawn %s %s: %w", c.stats.kind, c.name, err)) // ids are counted up: none is there twice
	}
	s.next = nil
	return Ref{c}
}

// keep holds c until claim asks for it.
func (s *System) keep(pid *actor.PID, c *cell) {
	s.limboMu.Lock()
	s.limbo[pid] = c
	s.limboMu.Unlock()
}

// claim returns the actor that was kept under pid.
func (s *System) claim(pid *actor.PID) *cell {
	s.limboMu.Lock()
	defer s.limboMu.Unlock()
	c := s.limbo[pid]
	delete(s.limbo, pid)
	return c
}

// Spawn starts an actor as a child of the root, which restarts it up to 10 times a
// minute; sup rules the actor's own children. After Shutdown has begun the actor
// is not started, and its Ref counts dead letters.
func (s *System) Spawn(kind Kind, name string, produce func() Actor, sup Supervision) Ref {
	ref, err := Ask(context.Background(), s.root, func(reply chan<- Ref) any {
		return spawnRequest{kind: kind, name: name, produce: produce, sup: sup, reply: reply}
	})
	if err != nil || ref.IsZero() {
		return Ref{&cell{sys: s, stats: s.metrics.of(kind), name: name, closed: true}}
	}
	return ref
}

// Alive returns nil if the root actor answers before ctx ends and none of its
// children has been given up.
func (s *System) Alive(ctx context.Context) error {
	if s.crippled.Load() {
		return errors.New("an actor failed too often and is stopped")
	}
	_, err := Ask(ctx, s.root, func(reply chan<- struct{}) any { return aliveRequest{reply} })
	return err
}

// Shutdown poisons the root's children one after the other, the youngest first,
// and waits for each and then for the goroutines of all actors. When ctx ends
// before that it stops the others at once, waits no longer and returns ctx's
// error. It may be called more than once.
func (s *System) Shutdown(ctx context.Context) error {
	s.ending.Store(true)
	children, err := Ask(ctx, s.root, func(reply chan<- []Ref) any { return closeRequest{reply} })
	if errors.Is(err, ErrStopped) {
		err = nil
	}
	for _, child := range slices.Backward(children) {
		child.Tell(poison{})
		if err == nil {
			err = wait(ctx, child.c.ended())
		}
	}
	s.root.c.PostSystemMessage(stop)
	if err == nil {
		err = wait(ctx, s.root.c.ended())
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

// End poisons an actor and waits until it has ended, or until ctx ends, whose error it
// returns then.
func (s *System) End(ctx context.Context, r Ref) error {
	if r.c == nil {
		return nil
	}
	r.Tell(poison{})
	if err := wait(ctx, r.c.ended()); err != nil {
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

// closeRequest asks for the children in the order of spawning; no more are spawned.
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

// quiet passes warnings and errors of the library on.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
