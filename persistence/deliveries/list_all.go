package deliveries

import (
	"context"
	"math"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// AllDeliveries is Deliveries for all webhooks of an account. It merges their deliveries by
// creation, in memory for a chunk of each.
func (h *History) AllDeliveries(
	ctx context.Context, account signal.AccountID, q delivery.Query,
) ([]delivery.Delivery, int, error) {
	ids, err := h.RDB.HKeys(ctx, h.WebhooksKey(h.Partition(account), account)).Result()
	if err != nil {
		return nil, 0, redisclient.Failed(err, "read webhooks")
	}
	m := merge{h: h, q: q, chunk: memberChunk}
	for _, id := range ids {
		w := hookOf(h.Client, account, signal.WebhookID(id))
		m.runs = append(m.runs, &run{w: w, last: redis.Z{Score: math.Inf(1), Member: ""}})
	}
	if !m.scans() {
		m.chunk = max(q.Offset+q.Limit, 1)
	} else if err := h.beginScan(ctx); err != nil {
		return nil, 0, redisclient.Failed(err, "list deliveries")
	} else {
		defer h.endScan()
	}
	page, total, err := m.page(ctx)
	if err == nil {
		var list []delivery.Delivery
		if list, err = h.readPage(ctx, page); err == nil {
			return list, total, nil
		}
	}
	return nil, 0, redisclient.Failed(err, "list deliveries")
}

// merge reads the deliveries of several webhooks, newest first.
type merge struct {
	h     *History
	q     delivery.Query
	chunk int // members of a webhook that are read at once
	runs  []*run
}

// run is the deliveries of one webhook in a merge.
type run struct {
	w      hook
	offset int
	last   redis.Z   // the last member that was read
	heads  []redis.Z // read and not merged yet
	ended  bool      // nothing is left to be read
}

// placed is a delivery of a page: the webhook and the member.
type placed struct {
	w      hook
	member string
}

// scans reports whether more than the first members of each webhook must be read.
func (m *merge) scans() bool {
	return m.q.Type != "" || m.q.Status == delivery.Pending || m.q.Offset+m.q.Limit > memberChunk
}

// page returns the members of the page of q, and the number of all matches.
func (m *merge) page(ctx context.Context) (page []placed, total int, err error) {
	if m.q.Type == "" {
		if total, err = m.count(ctx); err != nil || m.q.Offset >= total {
			return nil, total, err
		}
	}
	for n, drained := 0, true; ; n++ {
		if drained {
			if err := m.fill(ctx); err != nil {
				return nil, 0, err
			}
		}
		next := m.newest()
		if next == nil {
			if m.q.Type != "" {
				total = n
			}
			return page, total, nil
		}
		if n >= m.q.Offset && len(page) < m.q.Limit {
			page = append(page, placed{next.w, next.heads[0].Member.(string)})
		}
		next.heads = next.heads[1:]
		drained = len(next.heads) == 0
		if m.q.Type == "" && len(page) == m.q.Limit {
			return page, total, nil
		}
	}
}

// count returns the number of deliveries with the status of q.
func (m *merge) count(ctx context.Context) (int, error) {
	pipe := m.h.RDB.Pipeline()
	counts := make([]*redis.IntCmd, len(m.runs))
	for i, r := range m.runs {
		set := r.w.byCreation(m.q.Status)
		if m.q.Status == delivery.Pending {
			set = r.w.pending()
		}
		counts[i] = pipe.ZCard(ctx, set)
	}
	total := 0
	if len(counts) == 0 {
		return 0, nil
	}
	err := redisclient.Execute(ctx, pipe)
	for _, c := range counts {
		total += int(c.Val())
	}
	return total, err
}

// newest returns the run whose head is the newest delivery, or nil at the end.
func (m *merge) newest() *run {
	var first *run
	for _, r := range m.runs {
		if len(r.heads) > 0 && (first == nil || byScore(r.heads[0], first.heads[0]) > 0) {
			first = r
		}
	}
	return first
}

// fill reads on until every run has a head or has ended. A round trip reads a chunk of each that
// has none.
func (m *merge) fill(ctx context.Context) error {
	for {
		pipe := m.h.RDB.Pipeline()
		found := map[*run]*redis.ZSliceCmd{}
		for _, r := range m.runs {
			if len(r.heads) == 0 && !r.ended {
				last := int64(r.offset + m.chunk - 1)
				found[r] = pipe.ZRevRangeWithScores(ctx, r.w.byCreation(m.q.Status), int64(r.offset), last)
			}
		}
		if len(found) == 0 {
			return nil
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for r, cmd := range found {
			r.take(cmd.Val(), m.chunk)
		}
		if err := m.filter(ctx, found); err != nil {
			return err
		}
	}
}

// take adds members at the offset of r. Members that were added at the front have moved others
// there that were taken before.
func (r *run) take(found []redis.Z, chunk int) {
	r.ended = len(found) < chunk
	r.offset += chunk
	r.heads = slices.DeleteFunc(found, func(z redis.Z) bool { return byScore(z, r.last) >= 0 })
	if n := len(r.heads); n > 0 {
		r.last = r.heads[n-1]
	}
}

// filter removes the heads of the runs in read that q does not select.
func (m *merge) filter(ctx context.Context, read map[*run]*redis.ZSliceCmd) error {
	code := codec.CodeOfEvent[m.q.Type]
	pipe := m.h.RDB.Pipeline()
	due := map[*run]*redis.FloatSliceCmd{}
	for r := range read {
		if m.q.Type != "" {
			r.heads = slices.DeleteFunc(r.heads, func(z redis.Z) bool {
				member := z.Member.(string)
				return len(member) != memberBytes || member[memberBytes-1] != code
			})
		}
		if m.q.Status == delivery.Pending && len(r.heads) > 0 {
			due[r] = pipe.ZMScore(ctx, r.w.pending(), membersOf(r.heads)...)
		}
	}
	if len(due) == 0 {
		return nil
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return err
	}
	for r, scores := range due {
		kept := make([]redis.Z, 0, len(r.heads))
		for i, at := range scores.Val() {
			if at != 0 { // 0 is not in the set: nothing is due in 1970
				kept = append(kept, r.heads[i])
			}
		}
		r.heads = kept
	}
	return nil
}

// readPage returns the deliveries of a page as lists show them, in one round trip, without those
// that were erased meanwhile.
func (h *History) readPage(ctx context.Context, page []placed) ([]delivery.Delivery, error) {
	if len(page) == 0 {
		return []delivery.Delivery{}, nil
	}
	if err := deliveriesListScript.Load(ctx, h.RDB).Err(); err != nil {
		return nil, err
	}
	pipe := h.RDB.Pipeline()
	fronts := make([]*redis.Cmd, len(page))
	for i, at := range page {
		fields := recordFields([]string{at.member})
		keys := []string{at.w.records(), at.w.webhooks()}
		fronts[i] = deliveriesListScript.EvalSha(ctx, pipe, keys, deliveryFront, fields[0], string(at.w.id))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, err
	}
	list := make([]delivery.Delivery, 0, len(page))
	for i, at := range page {
		answer, _ := fronts[i].Slice()
		front := redisclient.Texts(answer)
		if len(front) == 0 || front[0] == "" {
			continue
		}
		d, _, err := decodeDelivery([]byte(front[0]))
		if err != nil {
			h.Log.Error("a delivery is not readable", "component", "persistence", "partition", at.w.p,
				"webhook", string(at.w.id), "err", err)
			continue
		}
		d.ID, d.Webhook, d.Account = deliveryOf(at.member), at.w.id, at.w.account
		list = append(list, d)
	}
	return list, nil
}
