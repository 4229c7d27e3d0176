package service

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/notary"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// signOften makes a service sign a checkpoint a second after each leaf.
func signOften(p *process) {
	p.notary = notary.New(p.store.Leaves, p.recordKeys, notary.Options{
		Every: time.Second, MaxLeaves: 1, Now: p.store.Client.Now, Log: p.log,
	})
}

// wireProof is the answer to GET /v1/signals/{id}/proof.
type wireProof struct {
	Checkpoint      string
	Created, Closed *verify.Leaf
}

// verifier returns a public key of the service, as a stranger gets it.
func (c *client) verifier() note.Verifier {
	c.tb.Helper()
	line, _, _ := bytes.Cut([]byte(c.get("/v1/log/key").ok(c.tb).Body), []byte("\n"))
	v, err := note.NewVerifier(string(line))
	must(c.tb, err)
	return v
}

// proof returns the proof of a signal once a checkpoint has it.
func (c *client) proof(id, query string) (p wireProof) {
	c.tb.Helper()
	eventually(c.tb, "a checkpoint has "+id, func() bool {
		a := c.get("/v1/signals/" + id + "/proof" + query)
		if a.Status == 409 {
			return false
		}
		p = decode[wireProof](c.tb, a.ok(c.tb).Body)
		return true
	})
	return p
}

// TestSignalIsProved checks offline what the service says of a signal.
func TestSignalIsProved(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := start(t, testConfig(t, redis.URL()), signOften)
	newMarket(t, redis.Client()).hours("BTC", 400)
	s.awaitPrices(t, "BTC", signal.H1)
	trader, _ := s.account(t)
	made := trader.run("BTC", "momentum")
	p := trader.proof(made.ID, "")
	c, err := verify.Open([]byte(p.Checkpoint), trader.verifier())
	must(t, err)
	entry, err := c.Holds(p.Created)
	must(t, err)
	if entry.Kind != "created" || entry.Signal != made.ID || p.Closed != nil {
		t.Errorf("the proof is %+v", p)
	}
}
