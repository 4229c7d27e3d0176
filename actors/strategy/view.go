package strategy

// view counts the outcomes of a pool that are known at a time, which moves forward.
type view struct {
	pool *Pool
	own  string // the asset whose outcomes count on their own as well

	at        int64
	positions map[string]span
	newest    int64 // the highest number of an outcome that is known
	all, mine tallies
	results   results
	past      past

	// recent are the asset's outcomes of later bars than those of the pool that are known,
	// where the pool is filled from elsewhere; the first counted ones count.
	recent  []Outcome
	counted int
	stored  int64 // the last bar of the asset whose outcome in the pool is known
}

// span is the range of an asset's outcomes that count, from the first one ever.
type span struct{ from, to int }

// advance counts what is known at a time in milliseconds. barTime is that between bars.
func (v *view) advance(at, barTime int64) {
	v.pool.mu.Lock()
	defer v.pool.mu.Unlock()
	if at < v.at || v.positions == nil || barTime != v.past.barTime || v.lost() {
		v.restart(barTime)
	}
	v.at = at
	for asset, o := range v.pool.of {
		before := v.positions[asset]
		p := before
		if p.to < o.dropped {
			p = span{o.dropped, o.dropped}
		}
		for ; p.to-o.dropped < len(o.kept) && o.kept[p.to-o.dropped].At <= KnownAt(at); p.to++ {
			x := &o.kept[p.to-o.dropped]
			v.add(asset, &x.Outcome, 1)
			if v.newest = max(v.newest, x.number); asset == v.own {
				v.stored = x.Bar
			}
		}
		if p != before { // as for few assets at a bar
			v.positions[asset] = p
		}
	}
	v.advanceRecent()
	for asset, o := range v.pool.of { // once it is known how many others count
		before, limit := v.positions[asset], MaxOutcomes
		if asset == v.own {
			limit -= v.counted
		}
		p := before
		for p.from < p.to && (p.to-p.from > limit || o.kept[p.from-o.dropped].number <= v.newest-MaxPooled) {
			v.add(asset, &o.kept[p.from-o.dropped].Outcome, -1)
			p.from++
		}
		if p != before {
			v.positions[asset] = p
		}
	}
}

// advanceRecent replaces recent outcomes by those of the pool and counts the ones that
// have become known.
func (v *view) advanceRecent() {
	for len(v.recent) > 0 && (v.recent[0].Bar <= v.stored || len(v.recent) > MaxOutcomes) {
		if v.counted > 0 {
			v.add(v.own, &v.recent[0], -1)
			v.counted--
		}
		v.recent = v.recent[1:]
	}
	for ; v.counted < len(v.recent) && v.recent[v.counted].At <= KnownAt(v.at); v.counted++ {
		v.add(v.own, &v.recent[v.counted], 1)
	}
}

// lost reports whether the pool has dropped an outcome that counts, which cannot be
// subtracted any more.
func (v *view) lost() bool {
	for asset, o := range v.pool.of {
		if p := v.positions[asset]; p.from < o.dropped && p.to > p.from {
			return true
		}
	}
	return false
}

func (v *view) restart(barTime int64) {
	v.all, v.mine, v.newest, v.counted, v.stored = tallies{}, tallies{}, 0, 0, 0
	v.results, v.past = results{}, past{barTime: barTime}
	v.positions = make(map[string]span, len(v.pool.of))
}

func (v *view) add(asset string, o *Outcome, sign int32) {
	x := countedOf(o)
	v.all.add(&x, &o.Bins, sign)
	v.results.add(&x, sign)
	v.past.add(&x, &o.Bins, o.Bar, sign)
	if asset == v.own {
		v.mine.add(&x, &o.Bins, sign)
	}
}
