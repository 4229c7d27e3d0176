package http

import (
	"context"
	"net/http"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Audits has the results of the last audit. See audit.Node.
type Audits interface {
	// Audit returns KindNotFound if there was none yet.
	Audit(ctx context.Context, account signal.AccountID) (audit.Result, error)
}

// AuditHandlers answer for audits.
type AuditHandlers struct{ audits Audits }

// NewAuditHandlers returns the handlers of audits.
func NewAuditHandlers(audits Audits) *AuditHandlers { return &AuditHandlers{audits} }

// Routes implements Resource.
func (h *AuditHandlers) Routes() []*Route {
	return []*Route{route("/v1/audit", methods{"GET": get(signal.SignalsRead, h.last)})}
}

// last answers GET /v1/audit.
func (h *AuditHandlers) last(c *call) error {
	result, err := h.audits.Audit(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, result)
}
