package webhook

// ring is a double-ended queue of at most maxLive deliveries that grows on demand.
type ring struct {
	items []*item
	first int // index of the oldest
	n     int
}

func (r *ring) len() int { return r.n }

func (r *ring) push(d *item) {
	if r.n == len(r.items) {
		grown := make([]*item, min(max(8, 2*r.n), maxLive))
		for i := range r.n {
			grown[i] = r.items[(r.first+i)%len(r.items)]
		}
		r.items, r.first = grown, 0
	}
	r.items[(r.first+r.n)%len(r.items)] = d
	r.n++
}

func (r *ring) oldest() *item { return r.items[r.first] }

func (r *ring) at(i int) *item { return r.items[(r.first+i)%len(r.items)] }

func (r *ring) popOldest() *item {
	d := r.items[r.first]
	r.items[r.first] = nil
	r.first = (r.first + 1) % len(r.items)
	r.n--
	return d
}

func (r *ring) popNewest() *item {
	i := (r.first + r.n - 1) % len(r.items)
	d := r.items[i]
	r.items[i] = nil
	r.n--
	return d
}
