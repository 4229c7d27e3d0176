package persistence

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/audits"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/outcomes"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// These are the parts of TestOnCluster that are about records.

func (b *clusterBench) testJobs(t *testing.T) {
	ctx := t.Context()
	node := func(name string, idle time.Duration) *jobs.Store {
		return jobs.New(b.store.Client, name, jobs.Options{Idle: idle, Search: 20 * time.Millisecond})
	}
	first, second := node("n1", 0), node("n2", time.Millisecond)
	enqueue := func(p int) signal.JobID {
		t.Helper()
		job := storetest.Job(storetest.AccountIn(b.store.Client, p), b.store.Client.Now())
		if err := first.Enqueue(ctx, job, 1000, nil); err != nil {
			t.Fatal(err)
		}
		return job.ID
	}
	want := map[signal.JobID]bool{}
	for p := range b.store.Client.Partitions() {
		want[enqueue(p)] = true
	}
	if n, err := first.Waiting(ctx); n != int64(len(want)) || err != nil {
		t.Errorf("%d jobs wait, %v; want %d", n, err, len(want))
	}
	// The first node takes all and does nothing; the second takes them over.
	for range want {
		storetest.NextJob(t, first)
	}
	for range b.store.Client.Partitions() {
		job := storetest.NextJob(t, second)
		if !want[job.ID] || job.Attempt != 2 {
			t.Errorf("job %s was taken over in attempt %d", job.ID, job.Attempt)
		}
		delete(want, job.ID)
		if _, err := storetest.CompleteJob(t, b.log, job, b.store.Client.Now()); err != nil {
			t.Errorf("complete: %v", err)
		}
		second.Done(job)
		account := job.Request.Account
		done, err := first.Job(ctx, account, job.ID)
		if done.Status != signal.JobCompleted || done.Signal == nil || err != nil {
			t.Errorf("job %s is %+v, %v", job.ID, done, err)
		}
		list, total, err := first.Jobs(ctx, account, signal.JobCompleted, 10, 0)
		if len(list) != 1 || total != 1 || err != nil {
			t.Errorf("listed: %d of %d, %v", len(list), total, err)
		}
	}
	// A job that comes while a node waits wakes it, though no command can wait for all queues.
	woken := make(chan signal.Job, 1)
	idle := node("n3", 0)
	go func() {
		for ctx.Err() == nil {
			if jobs, err := idle.Next(ctx, 1); err != nil || len(jobs) > 0 {
				woken <- append(jobs, signal.Job{})[0]
				return
			}
		}
	}()
	late := enqueue(0)
	if job := <-woken; job.ID != late {
		t.Errorf("the waiting node got job %q, want %s", job.ID, late)
	}
}

func (b *clusterBench) testReplies(t *testing.T) {
	ctx, account := t.Context(), storetest.AccountIn(b.store.Client, 4)
	key := signal.ReplyKey{Method: "POST", Path: "/v1/x", Key: "k"}
	claim := func() (*signal.Reply, error) { return b.store.Requests.Claim(ctx, account, key) }
	if r, err := claim(); r != nil || err != nil {
		t.Fatalf("claim: %v, %v", r, err)
	}
	if err := b.store.Requests.Release(ctx, account, key); err != nil {
		t.Errorf("release: %v", err)
	}
	if r, err := claim(); r != nil || err != nil {
		t.Errorf("claim after release: %v, %v", r, err)
	}
	// The reply without a body is stored with its signal, and shows that.
	sig := storetest.Signal(account)
	change := storetest.Created(sig)
	change.Reply = &signal.Reply{ReplyKey: key, Status: 200}
	if _, err := b.log.Append(ctx, change); err != nil {
		t.Fatal(err)
	}
	if r, err := claim(); err != nil || r == nil || r.Signal == nil || r.Signal.ID != sig.ID {
		t.Errorf("the reply is %+v, %v", r, err)
	}
	key.Path = "/v1/y"
	other := &signal.Reply{ReplyKey: key, Status: 201, Body: []byte("{}")}
	if err := b.store.Requests.SaveReply(ctx, account, other); err != nil {
		t.Errorf("save reply: %v", err)
	}
	key.Path, key.Claim = "/v1/z", "ended nonce 1"
	for range 2 { // the second replaces the lock of a process that is not live
		if r, err := claim(); r != nil || err != nil {
			t.Errorf("claim: %v, %v", r, err)
		}
	}
}

func (b *clusterBench) testMarket(t *testing.T) {
	ctx, m := t.Context(), market.New(b.store.Client)
	epoch, _, err := m.TakeLease(ctx, "a", time.Minute)
	if err != nil || epoch == 0 {
		t.Fatalf("take lease: %d, %v", epoch, err)
	}
	if other, _, err := m.TakeLease(ctx, "b", time.Minute); other != 0 || err != nil {
		t.Errorf("another feeder: %d, %v", other, err)
	}
	if err := m.RenewLease(ctx, "a", epoch, time.Minute); err != nil {
		t.Errorf("renew: %v", err)
	}
	last := marketdata.Tick{Price: 5, Time: 1}
	appended := []marketdata.AssetTick{{Asset: "BTC", Tick: last}, {Asset: "ETH", Tick: last}}
	if err := m.AppendRound(ctx, epoch, appended); err != nil {
		t.Fatal(err)
	}
	given := &redis.XAddArgs{Stream: b.store.Client.MarketBarsKey(), Values: []string{"asset", "BTC"}}
	b.cluster.Client().XAdd(ctx, given)
	var ticks []marketdata.Entry
	for more, after := true, (signal.Position{}); more; {
		var read []marketdata.Entry
		var err error
		if read, more, err = m.ReadTicks(ctx, marketdata.OwnTicks, after, 0); err != nil {
			t.Fatal(err)
		}
		if ticks = append(ticks, read...); len(read) > 0 {
			after = read[len(read)-1].Position
		}
	}
	if len(ticks) != 2 {
		t.Fatalf("%d ticks", len(ticks))
	}
	if end, err := m.TicksEnd(ctx, marketdata.OwnTicks); end != ticks[1].Position || err != nil {
		t.Errorf("the ticks end at %v, %v", end, err)
	}
	bars, _, err := m.ReadBars(ctx, signal.Position{}, time.Second)
	if len(bars) != 1 || err != nil {
		t.Fatalf("%d entries of bars, %v", len(bars), err)
	}
	asset := marketdata.Asset{Symbol: "BTC", Class: "crypto", Source: "stream", TickSize: .01, Speed: 1}
	step := &marketdata.Step{
		Epoch: epoch, Ticks: ticks[1].Position, Bars: bars[0].Position, Checkpoint: []byte("x"),
		Assets: []marketdata.Asset{asset},
		Live:   []marketdata.Live{{Asset: "BTC", Last: last}},
		Closed: []marketdata.AssetBar{storetest.Bar(0, 9), storetest.Bar(1, 9)},
		News:   []marketdata.NewsItem{{ID: "n", At: 1, Headline: "h", Weight: 1, Symbols: []string{"BTC"}}},
	}
	if err := m.Store(ctx, step); err != nil {
		t.Fatal(err)
	}
	fill := []marketdata.Series{
		{Asset: "BTC", Timeframe: signal.H1, Bars: []marketdata.AssetBar{storetest.Bar(2, 9)}},
		{Asset: "ETH", Timeframe: signal.H1, Bars: []marketdata.AssetBar{storetest.Bar(0, 9)}},
	}
	if err := m.Fill(ctx, epoch, fill); err != nil {
		t.Fatal(err)
	}
	recent := map[string]int{}
	count := func(asset string, bars []marketdata.AssetBar) { recent[asset] = len(bars) }
	err = m.EachRecent(ctx, []string{"BTC", "ETH"}, signal.H1, 10, count)
	if d := cmp.Diff(map[string]int{"BTC": 3, "ETH": 1}, recent); d != "" || err != nil {
		t.Errorf("recent bars: %v (-want +got):\n%s", err, d)
	}
	if bars, count, err := m.Bars(ctx, "BTC", signal.H1); len(bars) != 3 || count != 4 || err != nil {
		t.Errorf("%d bars, count %d, %v", len(bars), count, err)
	}
	if got, live, err := m.Asset(ctx, "BTC"); got != asset || live.Last.Price != 5 || err != nil {
		t.Errorf("asset %+v, live %+v, %v", got, live, err)
	}
	state, err := m.State(ctx)
	if state.Ticks != step.Ticks || state.Bars != step.Bars || len(state.Assets) != 1 || len(state.Live) != 1 ||
		err != nil {
		t.Errorf("state %+v, %v", state, err)
	}
	closed, news, closedTo, _, _, err := m.Follow(ctx, signal.Position{}, signal.Position{}, time.Second)
	if len(closed) != 4 || len(news) != 1 || err != nil {
		t.Errorf("followed: %d closed bars, %d news, %v", len(closed), len(news), err)
	}
	if end, _, n, err := m.FollowEnd(ctx); end != closedTo || n != 4 || err != nil {
		t.Errorf("closed bars end at %v after %d, %v; want %v", end, n, err, closedTo)
	}
	if err := m.Trim(ctx, b.store.Client.Now(), ticks[1].Position, b.store.Client.Now().Add(-time.Hour)); err != nil {
		t.Errorf("trim: %v", err)
	}
	if err := m.TrimBars(ctx, bars[0].Position); err != nil {
		t.Errorf("trim bars: %v", err)
	}
	outcome := marketdata.AssetOutcome{Asset: "BTC", Outcome: marketdata.Outcome{Bar: 1}}
	if err := outcomes.New(b.store.Client).Append(ctx, signal.H1, []marketdata.AssetOutcome{outcome}); err != nil {
		t.Errorf("append outcomes: %v", err)
	}
	if err := m.Settle(ctx, epoch, "XYZ", "no source has it", time.Minute); err != nil {
		t.Errorf("settle: %v", err)
	}
	if err := m.ReleaseLease(ctx, "a", epoch); err != nil {
		t.Errorf("release: %v", err)
	}
	if next, _, err := m.TakeLease(ctx, "b", time.Minute); next <= epoch || err != nil {
		t.Errorf("the next feeder has epoch %d, %v", next, err)
	}
	storetest.WantKind(t, "a step of the former feeder", m.Store(ctx, step), signal.KindConflict)
	storetest.WantKind(t, "a series of the former feeder", m.Fill(ctx, epoch, fill), signal.KindConflict)
}

func (b *clusterBench) testAccounts(t *testing.T) {
	s, ctx := b.store.Credentials, t.Context()
	a := storetest.AddAccount(t, s, "accounts@example.com")
	again := credential.Account{ID: signal.NewAccountID(), Email: a.Email, CreatedAt: storetest.Now()}
	storetest.WantError(t, s.CreateAccount(ctx, again, "hash"), signal.KindConflict, "email_taken")
	if got, _, err := s.AccountByEmail(ctx, a.Email); got != a || err != nil {
		t.Errorf("by email: %+v, %v", got, err)
	}
	if list, total, err := s.Accounts(ctx, 1000, 0); !slices.Contains(list, a) || total < 1 || err != nil {
		t.Errorf("listed: %v of %d, %v", list, total, err)
	}
	if err := s.Rehash(ctx, a.ID, "hash", "other hash"); err != nil {
		t.Errorf("rehash: %v", err)
	}
	kept, ended := storetest.AddSession(t, s, a.ID), storetest.AddSession(t, s, a.ID)
	events, err := s.SetPassword(ctx, a.ID, "new hash", 1, kept.ID, storetest.Now())
	if len(events) != 1 || events[0].Subject != string(ended.ID) || err != nil {
		t.Errorf("a new password ends %v, %v", events, err)
	}
	if _, p, err := s.AccountByID(ctx, a.ID); p.Hash != "new hash" || err != nil {
		t.Errorf("password: %+v, %v", p, err)
	}
	_, secret := storetest.AddKey(t, s, a.ID, "key")
	deleted, err := s.DeleteAccount(ctx, a.ID, storetest.Now())
	if len(deleted) != 1 || err != nil {
		t.Fatalf("deleting announces %v, %v", deleted, err)
	}
	_, err = s.KeyByDigest(ctx, secret)
	storetest.WantKind(t, "a key of the deleted account", err, signal.KindNotFound)
	_, err = s.SessionByLocator(ctx, kept.Locator)
	storetest.WantKind(t, "a session of the deleted account", err, signal.KindNotFound)
	events = append(events, deleted...)
	for _, e := range events {
		if _, err := b.log.Append(ctx, signal.Change{Account: a.ID, Events: []signal.Event{e}}); err != nil {
			t.Errorf("announce: %v", err)
		}
	}
	if err := s.Settle(ctx, events); err != nil {
		t.Errorf("settle: %v", err)
	}
	for _, e := range storetest.Outbox(t, s) {
		if e.Account == a.ID {
			t.Errorf("%+v is not settled", e)
		}
	}
}

func (b *clusterBench) testKeys(t *testing.T) {
	s, ctx := b.store.Credentials, t.Context()
	a := storetest.AddAccount(t, s, "keys@example.com")
	first, one := storetest.AddKey(t, s, a.ID, "one")
	_, two := storetest.AddKey(t, s, a.ID, "two")
	used := storetest.Now()
	if err := s.NoteKeyUses(ctx, map[credential.Digest]time.Time{one: used, two: used}); err != nil {
		t.Errorf("note uses: %v", err)
	}
	if k, err := s.KeyByDigest(ctx, one); k.ID != first.ID || !k.LastUsedAt.Equal(used) || err != nil {
		t.Errorf("key %+v, %v", k, err)
	}
	if events, err := s.RevokeKey(ctx, a.ID, first.ID, storetest.Now()); len(events) != 1 || err != nil {
		t.Errorf("revoking announces %v, %v", events, err)
	}
	if keys, err := s.Keys(ctx, a.ID); len(keys) != 1 || err != nil {
		t.Errorf("%d keys are left, %v", len(keys), err)
	}
	readers, digests := storetest.Readers(a.ID, "reader", 3)
	if err := s.CreateReaders(ctx, readers, digests, 10); err != nil {
		t.Errorf("create readers: %v", err)
	}
	if list, total, err := s.Readers(ctx, a.ID, 2, 0); len(list) != 2 || total != 3 || err != nil {
		t.Errorf("%d of %d readers are listed, %v", len(list), total, err)
	}
	ids, err := s.ReadersNamed(ctx, a.ID, "reader-")
	if events, e := s.RevokeReaders(ctx, a.ID, ids, storetest.Now()); len(events) != 3 || err != nil || e != nil {
		t.Errorf("revoking readers announces %v, %v, %v", events, err, e)
	}
	shown := credential.Publication{Account: a.ID, Slug: "keys", Title: "Keys", Enabled: true}
	if err := s.Publish(ctx, shown, 10); err != nil {
		t.Errorf("publish: %v", err)
	}
	if got, err := s.PublicationBySlug(ctx, "keys"); got != shown || err != nil {
		t.Errorf("published is %+v, %v", got, err)
	}
}

func (b *clusterBench) testSessions(t *testing.T) {
	s, ctx := b.store.Credentials, t.Context()
	a := storetest.AddAccount(t, s, "sessions@example.com")
	n := storetest.AddSession(t, s, a.ID)
	next := storetest.NextSession(n, "next")
	if events, err := s.RotateSession(ctx, next, n.Refresh, storetest.Now()); len(events) != 0 || err != nil {
		t.Errorf("rotate: %v, %v", events, err)
	}
	if got, err := s.SessionByLocator(ctx, n.Locator); got.Refresh != next.Refresh || err != nil {
		t.Errorf("rotated: %+v, %v", got, err)
	}
	events, err := s.RotateSession(ctx, storetest.NextSession(next, "third"), n.Refresh, storetest.Now())
	if len(events) != 1 || err != nil {
		t.Errorf("a used token announces %v, %v", events, err)
	}
	one := storetest.AddSession(t, s, a.ID)
	if events, err := s.EndSession(ctx, a.ID, one.ID, storetest.Now()); len(events) != 1 || err != nil {
		t.Errorf("ending announces %v, %v", events, err)
	}
	storetest.AddSession(t, s, a.ID)
	if events, err := s.EndSessions(ctx, a.ID, storetest.Now()); len(events) != 1 || err != nil {
		t.Errorf("ending all announces %v, %v", events, err)
	}
	email := credential.DigestOf(a.Email)
	rules := credential.LockRules{After: 2, Window: time.Hour, Duration: time.Hour}
	for want, i := false, 0; i < 2; want, i = true, i+1 {
		if _, locked, err := s.FailLogin(ctx, email, rules, storetest.Now()); locked != want || err != nil {
			t.Errorf("failed login %d: locked %v, %v", i+1, locked, err)
		}
	}
	if until, err := s.LockedUntil(ctx, email); until.IsZero() || err != nil {
		t.Errorf("locked until %v, %v", until, err)
	}
	if err := s.Unlock(ctx, email); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

func (b *clusterBench) testWebhooks(t *testing.T) {
	ctx, p := t.Context(), 7
	h, account := deliveries.New(b.store.Client, b.log), storetest.AccountIn(b.store.Client, 7)
	epoch := take(t, b.store, p)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	w, err := h.Settings.Register(ctx, storetest.Webhook(account), 1, nil)
	must("register", err)
	w, err = h.Settings.ChangeWebhook(ctx, w, true)
	must("change", err)
	list, err := h.Settings.Webhooks(ctx, account)
	if d := cmp.Diff([]delivery.Webhook{w}, list); d != "" || err != nil {
		t.Errorf("webhooks %v (-want +got):\n%s", err, d)
	}
	if accounts, err := h.Settings.AccountsWithWebhooks(ctx, p); len(accounts) != 1 || err != nil {
		t.Errorf("accounts %v, %v", accounts, err)
	}
	e := signal.NewEventID()
	d := storetest.Delivery(&w, e, storetest.Milli(0))
	batch := []delivery.EventDeliveries{{Event: e, Body: []byte("{}"), Deliveries: []delivery.Delivery{d}}}
	must("store deliveries", h.Queue.StoreDeliveries(ctx, p, epoch, batch))
	second := storetest.Delivery(&w, signal.NewEventID(), storetest.Milli(1))
	must("create delivery", h.Changes.CreateDelivery(ctx, second, []byte("{}")))
	if due, err := h.Queue.DueEndpoints(ctx, p, storetest.Milli(1), 0, 9); len(due) != 1 || err != nil {
		t.Errorf("due webhooks %v, %v", due, err)
	}
	if due, _, err := h.Queue.DueDeliveries(ctx, p, account, w.ID, storetest.Milli(1), 9, nil); len(due) != 2 || err != nil {
		t.Errorf("due deliveries %v, %v", due, err)
	}
	disabled := w
	disabled.Status, disabled.DisabledReason = delivery.WebhookDisabled, delivery.DisabledFailing
	left, err := h.Queue.StoreOutcomes(ctx, p, epoch, delivery.Outcomes{
		Account: account, Webhook: w.ID, Disabled: &disabled,
		Deliveries: []delivery.Delivery{storetest.Attempted(d, 500, storetest.Milli(2), time.Time{})},
		Health:     &delivery.WebhookHealth{FailingSince: b.store.Client.Now(), Failures: 5},
		Event:      &signal.Event{Type: signal.SystemNotification},
		Mails:      []delivery.Mail{{Account: account, Webhook: w.ID}},
	})
	if len(left) != 0 || err != nil {
		t.Errorf("outcomes left out: %v, %v", left, err)
	}
	got, err := h.Settings.Webhook(ctx, account, w.ID)
	if got.Status != delivery.WebhookDisabled || got.Health.Failures != 5 || err != nil {
		t.Errorf("disabled: %+v, %v", got, err)
	}
	_, err = h.Changes.RetryDelivery(ctx, account, w.ID, d.ID)
	must("retry", err)
	_, err = h.Changes.CancelDelivery(ctx, account, w.ID, d.ID)
	must("cancel", err)
	n, err := h.Changes.RetryDeliveries(ctx, account, w.ID, delivery.RetryQuery{Status: delivery.Failed})
	if n != 1 || err != nil {
		t.Errorf("%d are tried again, %v; want 1", n, err)
	}
	_, total, err := h.History.Deliveries(ctx, account, w.ID, delivery.Query{Type: d.Type, Limit: 1})
	if total != 2 || err != nil {
		t.Errorf("%d deliveries, %v; want 2", total, err)
	}
	if n, err := h.Changes.CancelDeliveries(ctx, account, w.ID); n != 2 || err != nil {
		t.Errorf("%d were cancelled, %v; want 2", n, err)
	}
	failed, total, err := h.History.Deliveries(ctx, account, w.ID, delivery.Query{Status: delivery.Failed, Limit: 9})
	if len(failed) != 2 || total != 2 || err != nil {
		t.Errorf("%d of %d failed, %v", len(failed), total, err)
	}
	mails, _, err := h.Mails.DueMails(ctx, p, b.store.Client.Now().Add(time.Second), 9)
	if len(mails) != 1 || err != nil {
		t.Fatalf("mails %v, %v", mails, err)
	}
	must("mail", h.Mails.StoreMailOutcome(ctx, p, epoch, mails[0], time.Time{}))
	if more, err := h.Retention.PruneDeliveries(ctx, p, epoch, w.ID, time.Hour, 1, 0); more || err != nil {
		t.Errorf("prune: %v, %v", more, err)
	}
	if stats, err := h.Stats.WebhookStats(ctx); stats.Disabled < 1 || err != nil {
		t.Errorf("counts %+v, %v", stats, err)
	}
	must("remove", h.Settings.RemoveWebhook(ctx, account, w.ID))
	for more := true; more; {
		more, err = h.Retention.EraseWebhooks(ctx, p, epoch)
		must("erase", err)
	}
	if accounts, err := h.Settings.AccountsWithWebhooks(ctx, p); len(accounts) != 0 || err != nil {
		t.Errorf("accounts %v, %v", accounts, err)
	}
}

func (b *clusterBench) testLeaves(t *testing.T) {
	s, ctx := b.store.Leaves, t.Context()
	const p = record.SigningPartition
	epoch := take(t, b.store, p)
	sig := storetest.Signal(storetest.AccountIn(b.store.Client, p))
	at, err := b.log.Append(ctx, storetest.Created(sig))
	if err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		if _, more, err = s.AppendLeaves(ctx, p, epoch); err != nil {
			t.Fatal(err)
		}
	}
	heads, err := s.LogHeads(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.CountLeaves(ctx); err != nil || n < heads.Logs[p].N {
		t.Errorf("%d leaves are counted, %v", n, err)
	}
	c, pieces := storetest.Checkpoint(t, b.store.Client.Now(), heads.Logs)
	if err := s.StoreCheckpoint(ctx, epoch, c, nil, pieces); err != nil {
		t.Error(err)
	}
	if stored, err := s.Checkpoint(ctx); err != nil || stored.Logs[p] != heads.Logs[p] {
		t.Errorf("the stored checkpoint is %+v, %v", stored, err)
	}
	if texts, err := s.Entries(ctx, 0, 1, c.Checkpoint); err != nil || texts[0] != c.Entry.Text {
		t.Errorf("the root log has %q, %v", texts, err)
	}
	if tree, err := s.RootTree(ctx, c.Root); err != nil || tree.Size() != 1 {
		t.Errorf("the edge of the root log: %v", err)
	}
	leaf, err := s.OpenLeaf(ctx, p, sig.Account, at, heads.Logs[p])
	if err == nil {
		_, err = c.Holds(leaf)
	}
	if err != nil {
		t.Errorf("proof: %v", err)
	}
	result := map[signal.AccountID][]byte{sig.Account: []byte("ok")}
	if err := audits.New(b.store.Client).StoreAudits(ctx, p, c.At, result); err != nil {
		t.Errorf("store audits: %v", err)
	}
	err = s.StoreCountersigned(ctx, record.Countersigned{Key: "witness", Size: 1, Note: c.Note})
	if all, err2 := s.Countersigned(ctx); err != nil || err2 != nil || all["witness"] != string(c.Note) {
		t.Errorf("countersigned: %v, %v, %v", all, err, err2)
	}
}
