package http

import (
	"net/http"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

type accountView struct {
	AccountID signal.AccountID `json:"account_id"`
	Email     string           `json:"email"`
	CreatedAt instant          `json:"created_at"`
}

func viewAccount(a credential.Account) accountView {
	return accountView{a.ID, a.Email, instant(a.CreatedAt)}
}

// account answers GET /v1/account.
func (s *Server) account(c *call) error {
	a, err := s.o.Credentials.Account(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewAccount(a))
}
