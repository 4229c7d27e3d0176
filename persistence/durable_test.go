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

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// acknowledged is a change whose answer a caller gets.
type acknowledged struct {
	name string
	do   func(s *Store, l *eventlog.Log) error // on a store that waits for replicas
	held func(s *Store) error                  // nil where what was acknowledged is true
	ends bool                                  // a credential: it must hold here at once, whatever the replicas have
}

// changesToAcknowledge prepares what is to be changed on a store that waits for no replica.
func changesToAcknowledge(t *testing.T, plain *Store) []acknowledged {
	t.Helper()
	ctx, now := t.Context(), nowMS()
	a := func(name string) credential.Account { return addAccount(t, plain, name+string(signal.NewAccountID())) }
	gone := func(err error) error { // nil where what err is of is not found
		if signal.KindOf(err) == signal.KindNotFound {
			return nil
		}
		return fmt.Errorf("it is still there: %v", err)
	}
	created, changed, deleted, keeper, user := a("created"), a("changed"), a("deleted"), a("keeper"), a("user")
	created.ID, created.Email = signal.NewAccountID(), "new"+created.Email
	old, digest := addKey(t, plain, keeper.ID, "old")
	added := credential.APIKey{ID: signal.NewKeyID(), Account: keeper.ID, Name: "added", Prefix: "ask_efgh", CreatedAt: now}
	addedDigest := credential.DigestOf("added" + string(added.ID))
	one, rotated, reused := addSession(t, plain, user.ID), addSession(t, plain, user.ID), addSession(t, plain, user.ID)
	all, ofPassword := addSession(t, plain, keeper.ID), addSession(t, plain, changed.ID)
	begun := one
	begun.ID, begun.Locator = signal.NewSessionID(), credential.DigestOf("begun"+string(one.ID))
	next := rotated
	next.Refresh = credential.DigestOf("next" + string(rotated.ID))
	stolen := reused
	stolen.Refresh = credential.DigestOf("stolen")
	job := newTestJob(user.ID, now)
	event := noted(user.ID, "event")
	reply := func(key string) *signal.Reply {
		k := signal.ReplyKey{Method: "POST", Path: "/v1/webhooks", Key: key}
		return &signal.Reply{ReplyKey: k, Status: 200, Body: []byte("{}")}
	}
	kept, saved := reply("kept"), reply("saved")
	if err := plain.SaveReply(ctx, user.ID, kept); err != nil {
		t.Fatal(err)
	}
	isKept := func(s *Store, k signal.ReplyKey) error {
		r, err := s.Claim(ctx, user.ID, k)
		if err == nil && r == nil {
			return errors.New("there is no reply")
		}
		return err
	}
	session := func(id signal.SessionID) func(s *Store) error {
		return func(s *Store) error {
			_, err := s.SessionByID(ctx, id)
			return err
		}
	}
	ended := func(id signal.SessionID) func(s *Store) error {
		return func(s *Store) error { return gone(session(id)(s)) }
	}
	only := func(_ []signal.Event, err error) error { return err }
	return []acknowledged{
		{"create account", func(s *Store, _ *eventlog.Log) error { return s.CreateAccount(ctx, created, "hash") },
			func(s *Store) error { _, _, err := s.AccountByID(ctx, created.ID); return err }, false},
		{"set password", func(s *Store, _ *eventlog.Log) error {
			return only(s.SetPassword(ctx, changed.ID, "other", 1, "", now))
		},
			func(s *Store) error {
				if _, p, err := s.AccountByID(ctx, changed.ID); err != nil || p.Hash != "other" {
					return fmt.Errorf("password %q, %v", p.Hash, err)
				}
				return ended(ofPassword.ID)(s)
			}, true},
		{"delete account", func(s *Store, _ *eventlog.Log) error { return only(s.DeleteAccount(ctx, deleted.ID, now)) },
			func(s *Store) error { _, _, err := s.AccountByID(ctx, deleted.ID); return gone(err) }, true},
		{"delete account again", func(s *Store, _ *eventlog.Log) error {
			_, err := s.DeleteAccount(ctx, "acc_unknown", now)
			if signal.KindOf(err) == signal.KindNotFound {
				return nil
			}
			return err
		}, nil, false},
		{"create key", func(s *Store, _ *eventlog.Log) error { return s.CreateKey(ctx, added, addedDigest, 100) },
			func(s *Store) error { _, err := s.KeyByDigest(ctx, addedDigest); return err }, false},
		{"revoke key", func(s *Store, _ *eventlog.Log) error { return only(s.RevokeKey(ctx, keeper.ID, old.ID, now)) },
			func(s *Store) error { _, err := s.KeyByDigest(ctx, digest); return gone(err) }, true},
		{"begin session", func(s *Store, _ *eventlog.Log) error {
			_, _, err := s.CreateSession(ctx, begun, 1, credential.DigestOf("nobody"), 100, now)
			return err
		}, session(begun.ID), false},
		{"rotate session", func(s *Store, _ *eventlog.Log) error { return only(s.RotateSession(ctx, next, rotated.Refresh, now)) },
			func(s *Store) error {
				n, err := s.SessionByID(ctx, next.ID)
				if err == nil && n.Refresh != next.Refresh {
					return errors.New("it has the former token")
				}
				return err
			}, false},
		{"reuse token", func(s *Store, _ *eventlog.Log) error {
			return only(s.RotateSession(ctx, stolen, credential.DigestOf("used"), now))
		}, ended(reused.ID), true},
		{"end session", func(s *Store, _ *eventlog.Log) error { return only(s.EndSession(ctx, user.ID, one.ID, now)) },
			ended(one.ID), true},
		{"end sessions", func(s *Store, _ *eventlog.Log) error { return only(s.EndSessions(ctx, keeper.ID, now)) },
			ended(all.ID), true},
		{"enqueue job", func(s *Store, _ *eventlog.Log) error {
			return NewJobs(s, "node", jobs.Options{}).Enqueue(ctx, job, 10, nil)
		},
			func(s *Store) error {
				_, err := NewJobs(s, "node", jobs.Options{}).Job(ctx, user.ID, job.ID)
				return err
			}, false},
		{"keep reply", func(s *Store, _ *eventlog.Log) error { return s.SaveReply(ctx, user.ID, saved) },
			func(s *Store) error { return isKept(s, saved.ReplyKey) }, false},
		{"replay reply", func(s *Store, _ *eventlog.Log) error { return isKept(s, kept.ReplyKey) },
			func(s *Store) error { return isKept(s, kept.ReplyKey) }, false},
		{"append", func(_ *Store, l *eventlog.Log) error { _, err := l.Append(ctx, event); return err },
			func(s *Store) error {
				if last, err := s.LastEvent(ctx, s.Partition(user.ID)); err != nil || last.IsZero() {
					return fmt.Errorf("last event %v, %v", last, err)
				}
				return nil
			}, false},
		{"refuse", func(_ *Store, l *eventlog.Log) error {
			_, err := l.Append(ctx, signal.Change{Account: user.ID, Signal: logSignal(user.ID),
				Events: []signal.Event{{Type: signal.SignalClosed}}})
			if signal.KindOf(err) == signal.KindConflict {
				return nil
			}
			return fmt.Errorf("it is not refused: %w", err)
		}, nil, false},
		{"remove webhook again", func(s *Store, l *eventlog.Log) error {
			err := NewWebhooks(s, l).RemoveWebhook(ctx, user.ID, signal.NewWebhookID())
			if signal.KindOf(err) == signal.KindNotFound {
				return nil
			}
			return err
		}, nil, false},
	}
}

// eachChange makes all changes at once on a store that waits for so many replicas.
func eachChange(t *testing.T, master *redistest.Server, replicas int, timeout time.Duration, check func(c acknowledged, s *Store, err error)) {
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

func TestNothingIsAcknowledgedThatReplicasLack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		demanded, present int
		stalled           bool // one of those that are present
		want              bool
	}{
		{"nobody waits", 0, 0, false, true},
		{"there is none", 1, 0, false, false},
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
			timeout := time.Duration(0) // the default, where it runs out
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

// TestWhatIsAcknowledgedSurvivesItsMaster: the replica stalls again and again, so that it
// lags behind what is not waited for.
func TestWhatIsAcknowledgedSurvivesItsMaster(t *testing.T) {
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
			// Until it has caught up, however long that takes on a busy machine. It fails when
			// the master is killed, which the changes notice, too.
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

// TestARefreshThatNoReplicaHasIsTakenBack: the client uses its token again, which must not
// pass for a stolen one.
func TestARefreshThatNoReplicaHasIsTakenBack(t *testing.T) {
	t.Parallel()
	master := redistest.New(t)
	plain := openStore(t, Options{URL: master.URL()})
	s := openStore(t, Options{URL: master.URL(), WaitReplicas: 1})
	n := addSession(t, plain, addAccount(t, plain, "a@example.com").ID)
	next := n
	next.Refresh = credential.DigestOf("next")
	if _, err := s.RotateSession(t.Context(), next, n.Refresh, nowMS()); signal.KindOf(err) != signal.KindUnavailable {
		t.Fatalf("without a replica: %v", err)
	}
	next.Refresh = credential.DigestOf("next but one")
	if ended, err := plain.RotateSession(t.Context(), next, n.Refresh, nowMS()); len(ended) > 0 || err != nil {
		t.Errorf("the same token again: %v, %v", ended, err)
	}
}

// TestARepeatedRequestWaitsForReplicas: its answer was stored by an append that was not
// acknowledged.
func TestARepeatedRequestWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	s := openStore(t, Options{URL: master.URL(), WaitReplicas: 1})
	l := openLog(t, s, eventlog.LogOptions{})
	account := signal.NewAccountID()
	c := noted(account, "done")
	key := signal.ReplyKey{Method: "POST", Path: "/v1/agents/trading/run", Key: "k"}
	c.Reply = &signal.Reply{ReplyKey: key, Status: 200, Body: []byte("{}")}
	if _, err := s.Claim(t.Context(), account, c.Reply.ReplyKey); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), c); signal.KindOf(err) != signal.KindUnavailable {
		t.Fatalf("append: %v", err)
	}
	if r, err := s.Claim(t.Context(), account, c.Reply.ReplyKey); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("the request again: %+v, %v", r, err)
	}
	replica.Follow(master)
	if r, err := s.Claim(t.Context(), account, c.Reply.ReplyKey); err != nil || r == nil {
		t.Errorf("with the replica: %+v, %v", r, err)
	}
	// From Redis 7.2 on WAIT goes by the last write of its connection, so there must be one.
	if ttl := s.RDB.TTL(t.Context(), redisclient.ConfirmKey(s.Partition(account))).Val(); ttl <= 0 {
		t.Errorf("nothing was written before the wait: TTL %s", ttl)
	}
}

// TestARepeatedBatchWaitsForReplicas: the answer of the first try is lost while the replica
// stalls. WAIT goes by what its own connection has written, so the second try, on another
// one, must be a write although it changes nothing.
func TestARepeatedBatchWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	replica.Follow(master)
	b := newLogBench(t, master, eventlog.LogOptions{WaitReplicas: 1, AppendTimeout: 3 * time.Second})
	account := accountIn(b.store, 0)
	b.append(noted(account, "before"))
	replica.InStep(master)
	replica.Pause()
	defer replica.Continue()
	answer := make(chan error, 1)
	go func() {
		_, err := b.log.Append(t.Context(), noted(account, "lost answer"))
		answer <- err
	}()
	for range 5 {
		eventually(t, func() bool { return blocked(b.rdb, t) || len(answer) > 0 })
		b.rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	if err := <-answer; signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("while the replica stalls: %v", err)
	}
	if n := b.rdb.XLen(t.Context(), redisclient.EventsKey(0)).Val(); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// TestARepeatedBatchIsAWrite, whatever WAIT goes by.
func TestARepeatedBatchIsAWrite(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
	key := redisclient.BatchKey(0, "test")
	o := eventlog.NewOperation()
	o.Step(eventlog.CmdSet, o.Key(redisclient.JobKey(0, "job_1")), "x")
	carryOutTogether(t, b.rdb, 0, o)
	b.rdb.Expire(t.Context(), key, time.Minute)
	again := eventlog.NewOperation()
	again.Step(eventlog.CmdSet, again.Key(redisclient.JobKey(0, "job_1")), "y")
	carryOutTogether(t, b.rdb, 0, again) // the same number
	if ttl := b.rdb.TTL(t.Context(), key).Val(); ttl != 10*time.Minute {
		t.Errorf("the batch is remembered for %s after its repetition, want 10 min", ttl)
	}
	if v := b.rdb.Get(t.Context(), redisclient.JobKey(0, "job_1")).Val(); v != "x" {
		t.Errorf("the repetition has stored %q", v)
	}
}

// blocked reports whether a client waits for replicas.
func blocked(c *redis.Client, t *testing.T) bool {
	for _, client := range strings.Split(c.ClientList(t.Context()).Val(), "\n") {
		if strings.Contains(client, "cmd=wait") && strings.Contains(client, "flags=b") {
			return true
		}
	}
	return false
}

// TestEndedSessionsLeaveNoLocators: nothing else would remove them for 90 days.
func TestEndedSessionsLeaveNoLocators(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *Store, n credential.Session) error{
		"password": func(s *Store, n credential.Session) error {
			_, err := s.SetPassword(t.Context(), n.Account, "other", 1, "", nowMS())
			return err
		},
		"logout": func(s *Store, n credential.Session) error {
			_, err := s.EndSession(t.Context(), n.Account, n.ID, nowMS())
			return err
		},
		"logout everywhere": func(s *Store, n credential.Session) error {
			_, err := s.EndSessions(t.Context(), n.Account, nowMS())
			return err
		},
		"reuse": func(s *Store, n credential.Session) error {
			_, err := s.RotateSession(t.Context(), n, credential.DigestOf("used"), nowMS())
			return err
		},
		"deletion": func(s *Store, n credential.Session) error {
			_, err := s.DeleteAccount(t.Context(), n.Account, nowMS())
			return err
		},
		"too many": func(s *Store, n credential.Session) error {
			newer := n
			newer.ID, newer.Locator, newer.Refresh = signal.NewSessionID(), credential.DigestOf("other"), credential.DigestOf("others")
			newer.KeepUntil = newer.KeepUntil.Add(time.Hour)
			if _, _, err := s.CreateSession(t.Context(), newer, 1, credential.DigestOf("nobody"), 1, nowMS()); err != nil {
				return err
			}
			if _, err := s.SessionByLocator(t.Context(), newer.Locator); err != nil {
				return err
			}
			return s.RDB.Del(t.Context(), redisclient.RefreshKey(newer.Locator.String())).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := credentialStore(t)
			n := addSession(t, s, addAccount(t, s, "a@example.com").ID)
			next := n
			next.Refresh = credential.DigestOf("next" + string(n.ID))
			if _, err := s.RotateSession(t.Context(), next, n.Refresh, nowMS()); err != nil {
				t.Fatal(err)
			}
			next.Refresh = credential.DigestOf("of nobody")
			if err := end(s, next); err != nil {
				t.Fatal(err)
			}
			if left := s.RDB.Keys(t.Context(), redisclient.RefreshKey("*")).Val(); len(left) != 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// A cluster of which no master is known is unavailable to every change, and to what tells
// of one that was made before.
func TestAClusterWithoutMasters(t *testing.T) {
	t.Parallel()
	plain := openStore(t, Options{URL: redistest.New(t).URL(), Partitions: 2})
	s := openStore(t, Options{URL: "redis+cluster://127.0.0.1:" + redistest.FreePort(t), Partitions: 2, WaitReplicas: 1})
	l := openLog(t, s, eventlog.LogOptions{AppendTimeout: 100 * time.Millisecond})
	for _, c := range changesToAcknowledge(t, plain) {
		wantKind(t, c.name, c.do(s, l), signal.KindUnavailable)
	}
	wantKind(t, "what is there already", s.Confirmed(t.Context(), redisclient.ConfirmAuthKey(), signal.NotFound("key")), signal.KindUnavailable)
	if s.Ready(t.Context()) == nil {
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

// TestEachWaitFollowsAWrite: from Redis 7.2 on WAIT goes by the last write of its connection,
// which the scripts and questions before it need not be. The log's own pipelines, which are
// all writes, are not looked at.
func TestEachWaitFollowsAWrite(t *testing.T) {
	t.Parallel()
	master := redistest.New(t)
	changes := changesToAcknowledge(t, openStore(t, Options{URL: master.URL(), Partitions: 4}))
	s := openStore(t, Options{URL: master.URL(), Partitions: 4, WaitReplicas: 1})
	l := openLog(t, s, eventlog.LogOptions{})
	var p pipelines
	s.RDB.AddHook(&p)
	var wg sync.WaitGroup
	for _, c := range changes {
		wg.Go(func() {
			if err := c.do(s, l); signal.KindOf(err) != signal.KindUnavailable {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	wg.Wait()
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
	if logged := 2; waits < len(changes)-logged { // append and refuse are the log's
		t.Errorf("%d times WAIT for %d changes", waits, len(changes))
	}
}
