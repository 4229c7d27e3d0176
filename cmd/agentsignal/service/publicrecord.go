package service

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/publicrecord"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/recordpage"
)

// newPublicRecords returns the files of public records.
func newPublicRecords(
	e environment, n *node, s *storage, r *runs, p *proof, own *asking, cards *scorecard.Scorecards,
) *recordpage.Cache {
	records := &publicrecord.Sources{
		Leaves:     s.store.Leaves,
		Witnesses:  p.witnesses,
		Lists:      r.catalogue,
		Scorecards: cards,
		Signals:    s.store.Signals,
		Agents:     own.ownAgents,
		Retention:  time.Duration(e.config.Signals.Retention),
		Cost:       costOf(e.config.Costs),
		Now:        s.store.Client.Now,
	}
	cache := recordpage.NewCache(records, &recordpage.Renderer{Keys: n.keys.record.Public(),
		Script: signalhttp.VerifierPath()}, e.log)
	e.stops.Add("public records", cache.Close)
	return cache
}
