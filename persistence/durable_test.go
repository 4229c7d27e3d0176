package persistence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/audits"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// acknowledged is a change whose answer a caller gets.
type acknowledged struct {
	name string
	do   func(s *Store, l *eventlog.Log) error // on a store that waits for replicas
	held func(s *Store) error                  // returns nil if the acknowledged change is there
	ends bool                                  // a credential that the master refuses at once
}

// changesToAcknowledge prepares the records to change on a store that waits for no replica.
func changesToAcknowledge(t *testing.T, plain *Store) []acknowledged {
	t.Helper()
	ctx, now := t.Context(), storetest.Now()
	account := func(name string) credential.Account {
		return storetest.AddAccount(t, plain.Credentials, name+string(signal.NewAccountID()))
	}
	addSession := func(a credential.Account) credential.Session {
		return storetest.AddSession(t, plain.Credentials, a.ID)
	}
	notFound := func(err error) error { // nil if err is of KindNotFound
		if signal.KindOf(err) == signal.KindNotFound {
			return nil
		}
		return fmt.Errorf("got %w, want not found", err)
	}
	created, changed, deleted := account("created"), account("changed"), account("deleted")
	keeper, user := account("keeper"), account("user")
	created.ID, created.Email = signal.NewAccountID(), "new"+created.Email
	old, digest := storetest.AddKey(t, plain.Credentials, keeper.ID, "old")
	added := old
	added.ID, added.Name = signal.NewKeyID(), "added"
	addedDigest := credential.DigestOf("added" + string(added.ID))
	one, rotated, reused := addSession(user), addSession(user), addSession(user)
	all, ofPassword := addSession(keeper), addSession(changed)
	begun := one
	readers, readerDigests := storetest.Readers(user.ID, "new", 2)
	oldReaders, oldDigests := storetest.Readers(user.ID, "old", 2)
	if err := plain.Credentials.CreateReaders(ctx, oldReaders, oldDigests, 10); err != nil {
		t.Fatal(err)
	}
	begun.ID, begun.Locator = signal.NewSessionIDAt(time.Now()), credential.DigestOf("begun"+string(one.ID))
	next := rotated
	next.Refresh = credential.DigestOf("next" + string(rotated.ID))
	stolen := reused
	stolen.Refresh = credential.DigestOf("stolen")
	job := storetest.Job(user.ID, now)
	event := storetest.Noted(user.ID, "event")
	reply := func(key string) *signal.Reply {
		k := signal.ReplyKey{Method: "POST", Path: "/v1/webhooks", Key: key}
		return &signal.Reply{ReplyKey: k, Status: 200, Body: []byte("{}")}
	}
	kept, saved := reply("kept"), reply("saved")
	if err := plain.Requests.SaveReply(ctx, user.ID, kept); err != nil {
		t.Fatal(err)
	}
	isKept := func(s *Store, k signal.ReplyKey) error {
		r, err := s.Requests.Claim(ctx, user.ID, k)
		if err == nil && r == nil {
			return errors.New("there is no reply")
		}
		return err
	}
	session := func(id signal.SessionID) func(s *Store) error {
		return func(s *Store) error { return errOf(s.Credentials.SessionByID(ctx, id)) }
	}
	ended := func(id signal.SessionID) func(s *Store) error {
		return func(s *Store) error { return notFound(session(id)(s)) }
	}
	epoch, _, err := plain.Logs.Leases.TakeLease(ctx, record.SigningPartition, "signer", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	witnessed := record.Countersigned{Key: "witness", Size: 1, Note: []byte("note\n1\n")}
	checked, pieces := storetest.Checkpoint(t, now, nil)
	return []acknowledged{
		{"create account", func(s *Store, _ *eventlog.Log) error {
			return s.Credentials.CreateAccount(ctx, created, "hash")
		},
			func(s *Store) error { return errOf2(s.Credentials.AccountByID(ctx, created.ID)) }, false},
		{"set password", func(s *Store, _ *eventlog.Log) error {
			return errOf(s.Credentials.SetPassword(ctx, changed.ID, "other", 1, "", now))
		},
			func(s *Store) error {
				if _, p, err := s.Credentials.AccountByID(ctx, changed.ID); err != nil || p.Hash != "other" {
					return fmt.Errorf("password %q, %v", p.Hash, err)
				}
				return ended(ofPassword.ID)(s)
			}, true},
		{"delete account", func(s *Store, _ *eventlog.Log) error {
			return errOf(s.Credentials.DeleteAccount(ctx, deleted.ID, now))
		},
			func(s *Store) error { return notFound(errOf2(s.Credentials.AccountByID(ctx, deleted.ID))) }, true},
		{"delete account again", func(s *Store, _ *eventlog.Log) error {
			return notFound(errOf(s.Credentials.DeleteAccount(ctx, "acc_unknown", now)))
		}, nil, false},
		{"create key", func(s *Store, _ *eventlog.Log) error {
			return s.Credentials.CreateKey(ctx, added, addedDigest, 100)
		},
			func(s *Store) error { return errOf(s.Credentials.KeyByDigest(ctx, addedDigest)) }, false},
		{"revoke key", func(s *Store, _ *eventlog.Log) error {
			return errOf(s.Credentials.RevokeKey(ctx, keeper.ID, old.ID, now))
		},
			func(s *Store) error { return notFound(errOf(s.Credentials.KeyByDigest(ctx, digest))) }, true},
		{"create readers", func(s *Store, _ *eventlog.Log) error {
			return s.Credentials.CreateReaders(ctx, readers, readerDigests, 10)
		},
			func(s *Store) error { return errOf(s.Credentials.KeyByDigest(ctx, readerDigests[1])) }, false},
		{"revoke readers", func(s *Store, _ *eventlog.Log) error {
			ids, err := s.Credentials.ReadersNamed(ctx, user.ID, "old")
			return errors.Join(err, errOf(s.Credentials.RevokeReaders(ctx, user.ID, ids, now)))
		},
			func(s *Store) error { return notFound(errOf(s.Credentials.KeyByDigest(ctx, oldDigests[0]))) }, true},
		{"begin session", func(s *Store, _ *eventlog.Log) error {
			return errOf2(s.Credentials.CreateSession(ctx, begun, 1, credential.DigestOf("nobody"), 100, now))
		}, session(begun.ID), false},
		{"rotate session", func(s *Store, _ *eventlog.Log) error {
			return errOf(s.Credentials.RotateSession(ctx, next, rotated.Refresh, now))
		},
			func(s *Store) error {
				n, err := s.Credentials.SessionByID(ctx, next.ID)
				if err == nil && n.Refresh != next.Refresh {
					return errors.New("it has the former token")
				}
				return err
			}, false},
		{"reuse token", func(s *Store, _ *eventlog.Log) error {
			return errOf(s.Credentials.RotateSession(ctx, stolen, credential.DigestOf("used"), now))
		}, ended(reused.ID), false}, // while replicas are missing no token is replaced
		{"end session", func(s *Store, _ *eventlog.Log) error {
			return errOf(s.Credentials.EndSession(ctx, user.ID, one.ID, now))
		}, ended(one.ID), true},
		{"end sessions", func(s *Store, _ *eventlog.Log) error {
			return errOf(s.Credentials.EndSessions(ctx, keeper.ID, now))
		}, ended(all.ID), true},
		{"enqueue job", func(s *Store, _ *eventlog.Log) error {
			return jobs.New(s.Client, "node", jobs.Options{}).Enqueue(ctx, job, 10, nil)
		},
			func(s *Store) error {
				return errOf(jobs.New(s.Client, "node", jobs.Options{}).Job(ctx, user.ID, job.ID))
			}, false},
		{"keep reply", func(s *Store, _ *eventlog.Log) error { return s.Requests.SaveReply(ctx, user.ID, saved) },
			func(s *Store) error { return isKept(s, saved.ReplyKey) }, false},
		{"replay reply", func(s *Store, _ *eventlog.Log) error { return isKept(s, kept.ReplyKey) },
			func(s *Store) error { return isKept(s, kept.ReplyKey) }, false},
		{"append", func(_ *Store, l *eventlog.Log) error { return errOf(l.Append(ctx, event)) },
			func(s *Store) error {
				if last, err := s.Logs.LastEvent(ctx, s.Client.Partition(user.ID)); err != nil || last.IsZero() {
					return fmt.Errorf("last event %v, %v", last, err)
				}
				return nil
			}, false},
		{"refuse", func(_ *Store, l *eventlog.Log) error {
			c := storetest.Created(storetest.Signal(user.ID))
			c.Events[0].Type = signal.SignalClosed
			_, err := l.Append(ctx, c)
			if signal.KindOf(err) == signal.KindConflict {
				return nil
			}
			return fmt.Errorf("it is not refused: %w", err)
		}, nil, false},
		{"read heads to sign", func(s *Store, _ *eventlog.Log) error { return errOf(s.Leaves.LogHeads(ctx)) }, nil, false},
		{"store checkpoint", func(s *Store, _ *eventlog.Log) error {
			return s.Leaves.StoreCheckpoint(ctx, epoch, checked, nil, pieces)
		},
			func(s *Store) error {
				return s.Client.RDB.Get(ctx, s.Client.CheckpointKey(record.SigningPartition)).Err()
			}, false},
		{"store countersigned", func(s *Store, _ *eventlog.Log) error { return s.Leaves.StoreCountersigned(ctx, witnessed) },
			func(s *Store) error {
				if notes, err := s.Leaves.Countersigned(ctx); err != nil || notes[witnessed.Key] == "" {
					return fmt.Errorf("checkpoints %v, %v", notes, err)
				}
				return nil
			}, false},
		{"store audit", func(s *Store, _ *eventlog.Log) error {
			results := map[signal.AccountID][]byte{user.ID: []byte("result")}
			return audits.New(s.Client).StoreAudits(ctx, s.Client.Partition(user.ID), now, results)
		},
			func(s *Store) error { return errOf2(audits.New(s.Client).Audit(ctx, user.ID)) }, false},
		{"remove webhook again", func(s *Store, l *eventlog.Log) error {
			return notFound(deliveries.New(s.Client, l).Settings.RemoveWebhook(ctx, user.ID, signal.NewWebhookID()))
		}, nil, false},
	}
}

// eachChange makes all changes at once on a store that waits for the given number of replicas.
func eachChange(
	t *testing.T, master *redistest.Server, replicas int, timeout time.Duration,
	check func(c acknowledged, s *Store, err error),
) {
	t.Helper()
	plain := openStore(t, Options{URL: master.URL(), Partitions: 4})
	s := openStore(t, Options{URL: master.URL(), Partitions: 4, WaitReplicas: replicas, Timeout: timeout})
	l := openLog(t, s, eventlog.LogOptions{AppendTimeout: timeout})
	changes := changesToAcknowledge(t, plain)
	var wg sync.WaitGroup
	for _, c := range changes {
		wg.Go(func() { check(c, plain, c.do(s, l)) })
	}
	wg.Wait()
}

func TestChangesWaitForReplicas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		demanded, present int
		stalled           bool // one of those that are present
		want              bool
	}{
		{"no wait", 0, 0, false, true},
		{"no replica", 1, 0, false, false},
		{"it is there", 1, 1, false, true},
		{"it stalls", 1, 1, true, false},
		{"one of two is there", 2, 1, false, false},
		{"both are there", 2, 2, false, true},
		{"one of two stalls", 2, 2, true, false},
		{"one is enough", 1, 2, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			master := redistest.New(t)
			var replicas []*redistest.Server
			for range c.present {
				r := redistest.New(t)
				r.Follow(master)
				replicas = append(replicas, r)
			}
			if c.stalled {
				replicas[0].InStep(master)
				replicas[0].Pause()
			}
			timeout := time.Duration(0) // the default, which expires
			if c.want {
				timeout = 20 * time.Second
			}
			eachChange(t, master, c.demanded, timeout, func(a acknowledged, plain *Store, err error) {
				switch {
				case c.want && err != nil:
					t.Errorf("%s: %v", a.name, err)
				case !c.want && signal.KindOf(err) != signal.KindUnavailable:
					t.Errorf("%s: %v, want unavailable", a.name, err)
				}
				if a.ends || c.want && a.held != nil {
					if err := a.held(plain); err != nil {
						t.Errorf("%s does not hold here: %v", a.name, err)
					}
				}
			})
			if c.stalled {
				replicas[0].Continue()
			}
		})
	}
}

// TestAcknowledgedChangesSurviveFailover: the replica stalls repeatedly, so it lacks changes
// that were not waited for.
func TestAcknowledgedChangesSurviveFailover(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	replica.Follow(master)
	promoted := openStore(t, Options{URL: replica.URL(), Partitions: 4})
	plain := master.Client()
	var mu sync.Mutex
	var kept []acknowledged
	stop := make(chan struct{})
	var stalls sync.WaitGroup
	stalls.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			replica.Pause()
			time.Sleep(100 * time.Millisecond)
			replica.Continue()
			// Until it has caught up, however long that takes on a busy machine. This fails
			// once the master is killed, and so do the changes.
			_, _ = plain.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Incr(t.Context(), "stalls")
				p.Do(t.Context(), redisclient.WaitFor(1, time.Second)...)
				return nil
			})
		}
	})
	eachChange(t, master, 1, 20*time.Second, func(a acknowledged, _ *Store, err error) {
		if err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, a)
	})
	master.Kill()
	close(stop)
	stalls.Wait()
	replica.Promote()
	for _, a := range kept {
		if a.held == nil {
			continue
		}
		if err := a.held(promoted); err != nil {
			t.Errorf("%s is lost: %v", a.name, err)
		}
	}
}

// Without a known master every change fails as unavailable, and so does a reply that shows an
// earlier change.
func TestClusterWithoutMasters(t *testing.T) {
	t.Parallel()
	plain := openStore(t, Options{URL: redistest.New(t).URL(), Partitions: 2})
	address := "redis+cluster://127.0.0.1:" + redistest.FreePort(t)
	s := openStore(t, Options{URL: address, Partitions: 2, WaitReplicas: 1})
	l := openLog(t, s, eventlog.LogOptions{AppendTimeout: 100 * time.Millisecond})
	for _, c := range changesToAcknowledge(t, plain) {
		storetest.WantKind(t, c.name, c.do(s, l), signal.KindUnavailable)
	}
	err := s.Client.Durable.Confirmed(t.Context(), plain.Client.ConfirmAuthKey(), signal.NotFound("key"))
	storetest.WantKind(t, "an earlier change", err, signal.KindUnavailable)
	if s.Client.Readiness.Check(t.Context()) == nil {
		t.Error("it is ready")
	}
}

// pipelines records the pipelines that a client sends.
type pipelines struct {
	mu   sync.Mutex
	sent [][]redis.Cmder
}

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.mu.Lock()
		p.sent = append(p.sent, cmds)
		p.mu.Unlock()
		return next(ctx, cmds)
	}
}

// TestEachWaitFollowsAWrite: since Redis 7.2 WAIT waits for the last write of its connection,
// and the scripts and reads before it may write nothing. The pipelines of the log are all
// writes and are not checked.
func TestEachWaitFollowsAWrite(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	replica.Follow(master)
	changes := changesToAcknowledge(t, openStore(t, Options{URL: master.URL(), Partitions: 4}))
	s := openStore(t, Options{URL: master.URL(), Partitions: 4, WaitReplicas: 1, Timeout: 40 * time.Second})
	l := openLog(t, s, eventlog.LogOptions{})
	var p pipelines
	s.Client.RDB.AddHook(&p)
	for _, c := range changes {
		if err := c.do(s, l); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	waits := 0
	for _, cmds := range p.sent {
		for i, cmd := range cmds {
			if !strings.EqualFold(cmd.Name(), "wait") {
				continue
			}
			waits++
			if i == 0 || cmds[i-1].Name() != "set" || !strings.HasSuffix(fmt.Sprint(cmds[i-1].Args()[1]), "}:confirm") {
				var names []string
				for _, before := range cmds[:i] {
					names = append(names, before.Name())
				}
				t.Errorf("before WAIT: %v", names)
			}
		}
	}
	// The log sends append and refuse, and each partition has a head to sign.
	if want := len(changes) - 2 + s.Client.Partitions() - 1; waits < want {
		t.Errorf("%d times WAIT for %d changes, want %d", waits, len(changes), want)
	}
}

// withoutReplicas calls check for each change, one after another on a store that knows that its
// replica is missing.
func withoutReplicas(t *testing.T, accept bool, check func(c acknowledged, plain *Store, before, err error)) {
	t.Helper()
	master := redistest.New(t)
	plain := openStore(t, Options{URL: master.URL(), Partitions: 4})
	s := openStore(t, Options{URL: master.URL(), Partitions: 4, WaitReplicas: 1, AcceptWithoutReplicas: accept})
	l := openLog(t, s, eventlog.LogOptions{})
	changes := changesToAcknowledge(t, plain)
	first := signal.ReplyKey{Method: "POST", Path: "/", Key: "first"}
	_ = s.Requests.SaveReply(t.Context(), signal.NewAccountID(), &signal.Reply{ReplyKey: first, Status: 200, Body: []byte("{}")})
	if !s.Client.Replicas.Missing() {
		t.Fatal("it is not known that the replica is missing")
	}
	for _, c := range changes {
		var before error
		if c.held != nil {
			before = c.held(plain)
		}
		check(c, plain, before, c.do(s, l))
	}
}

// While replicas are known to be missing a refused change leaves nothing, except that ended
// credentials are refused.
func TestRefusedChangesLeaveNothing(t *testing.T) {
	t.Parallel()
	withoutReplicas(t, false, func(c acknowledged, plain *Store, before, err error) {
		if reason, _ := redisclient.Refusal(err); signal.KindOf(err) != signal.KindUnavailable ||
			reason != redisclient.ReplicasMissing {
			t.Errorf("%s: %v, want unavailable without replicas", c.name, err)
		}
		if c.held == nil || before == nil {
			return
		}
		switch err := c.held(plain); {
		case c.ends && err != nil:
			t.Errorf("%s does not hold here: %v", c.name, err)
		case !c.ends && err == nil:
			t.Errorf("%s is stored", c.name)
		}
	})
}

func TestAcceptedChangesAreStored(t *testing.T) {
	t.Parallel()
	withoutReplicas(t, true, func(c acknowledged, plain *Store, _, err error) {
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.held != nil {
			if err := c.held(plain); err != nil {
				t.Errorf("%s does not hold: %v", c.name, err)
			}
		}
	})
}

// A refresh that meets the loss of the replicas is taken back, although they are known to be
// missing by then: the client uses its token again.
func TestRefreshIsTakenBackWithoutReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.New(t)
	plain := openStore(t, Options{URL: master.URL(), Partitions: 4})
	a := storetest.AddAccount(t, plain.Credentials, "a@example.com")
	session := storetest.AddSession(t, plain.Credentials, a.ID)
	s := openStore(t, Options{URL: master.URL(), Partitions: 4, WaitReplicas: 1})
	next := session
	next.Refresh = credential.DigestOf("next")
	_, err := s.Credentials.RotateSession(t.Context(), next, session.Refresh, storetest.Now())
	storetest.WantKind(t, "refresh", err, signal.KindUnavailable)
	if events, err := plain.Credentials.RotateSession(t.Context(), next, session.Refresh, storetest.Now()); err != nil ||
		len(events) > 0 {
		t.Errorf("the token is not valid again: %d events, %v", len(events), err)
	}
}
