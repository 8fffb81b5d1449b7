package api

import (
	"net/http"

	"weir/internal/operators/denials"
)

// Denials is the answer of GET /denials: what was denied lately.
type Denials struct {
	denials.Summary
	// Servers is how many servers it is of, 0 if the server does not say.
	Servers int `json:"servers,omitempty"`
}

func (s *Server) denialRoutes() []route {
	return []route{
		{"GET", "/denials", values, "what was denied lately, of every replica with ?replicas=all", answer(http.StatusOK, func(r *http.Request) (any, error) {
			all, err := allReplicas(r)
			if err != nil {
				return nil, err
			}
			return s.Denials(r.Context(), all)
		})},
	}
}
