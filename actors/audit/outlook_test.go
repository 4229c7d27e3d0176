package audit

import (
	"fmt"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestOutlooksOfOneInputAreTheSame(t *testing.T) {
	t.Parallel()
	s := newStock(t)
	s.signals = s.signals[:4]
	for i, x := range s.signals {
		x.Agent, x.Strategy, x.Direction = "weather", "energy_demand", signal.Long
		x.CreatedAt = time.UnixMilli(int64(i) + s.bars[1000].CloseTime)
		x.Metadata = fmt.Appendf(nil, `{"input_hash":"%02d","values":{"anomaly_z":1.5},"strength":0.9}`, i/3)
	}
	named := func() (ids []signal.SignalID) {
		r := auditOf(t, s)
		if r.Outlooks != 2 {
			t.Errorf("%d compared", r.Outlooks)
		}
		for _, d := range r.Differing {
			if d.Differences[0].Member == "outlook" {
				ids = append(ids, d.ID)
			}
		}
		return ids
	}
	if ids := named(); len(ids) > 0 {
		t.Errorf("untouched: %v", ids)
	}
	s.signals[2].Metadata = []byte(`{"input_hash":"00","values":{"anomaly_z":-1.5},"strength":0.9}`)
	if ids := named(); len(ids) != 1 || ids[0] != s.signals[2].ID {
		t.Errorf("changed: %v", ids)
	}
}
