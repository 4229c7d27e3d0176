// Package credentials keeps accounts, API keys, sessions and the locks of logins.
//
// They share one slot, since they are looked up before the account is known. What ends a
// credential is stored with the event that announces it: the event lies in an outbox until
// it is in its account's log. A change is answered when the replicas that are waited for
// have it; without enough of them it is KindUnavailable, although it may stand.
package credentials
