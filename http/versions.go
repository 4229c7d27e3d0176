package http

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/http/request"
)

const versionHeader = "X-Service-Version"

// apiVersion is a version of the contract, named by its date.
type apiVersion struct {
	Name   string
	Status string // current, supported, deprecated
	// Of a deprecated version: when it was deprecated and when it ends.
	DeprecatedAt, SunsetAt time.Time

	header []string
}

// apiVersions lists the versions of the contract, newest first. The first is the default of
// every account.
var apiVersions = []apiVersion{newVersion("2026-11-01", "current")}

func newVersion(name, status string) apiVersion {
	return apiVersion{Name: name, Status: status, header: []string{name}}
}

type versionView struct {
	Version  string  `json:"version"`
	Status   string  `json:"status"`
	SunsetAt instant `json:"sunset_at"`
}

type versionList struct {
	Versions []versionView `json:"versions"`
	Default  string        `json:"default"`
}

// selectVersion answers in the version that the request names, or records a fault if it is
// unknown.
func (s *Server) selectVersion(c *call) {
	values := c.r.Header[versionHeader]
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return
	}
	if len(values) > 1 {
		c.faults.Add(request.InHeader, versionHeader, request.CodeDuplicate, "is given more than once")
		return
	}
	i := slices.IndexFunc(s.versions, func(v apiVersion) bool { return v.Name == values[0] })
	if i < 0 {
		c.faults.Add(request.InHeader, versionHeader, request.CodeInvalidValue, request.OneOf(s.versionNames()))
		return
	}
	v, h := &s.versions[i], c.Header()
	h[versionHeader] = v.header
	if v.Status == "deprecated" { // RFC 9745 and RFC 8594
		h.Set("Deprecation", "@"+strconv.FormatInt(v.DeprecatedAt.Unix(), 10))
		h.Set("Sunset", v.SunsetAt.UTC().Format(http.TimeFormat))
	}
}

func (s *Server) versionNames() []string {
	return views(s.versions, func(v *apiVersion) string { return v.Name })
}

// listVersions answers GET /v1/versions.
func (s *Server) listVersions(c *call) error {
	list := versionList{Default: s.versions[0].Name}
	for _, v := range s.versions {
		list.Versions = append(list.Versions, versionView{v.Name, v.Status, instant(v.SunsetAt)})
	}
	return c.value(http.StatusOK, list)
}
