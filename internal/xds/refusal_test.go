package xds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// response is one of a type, with a resource of each value.
func response(typeURL, version string, values ...string) *discovery.DiscoveryResponse {
	r := &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: version}
	for _, value := range values {
		r.Resources = append(r.Resources, &anypb.Any{TypeUrl: typeURL, Value: []byte(value)})
	}
	return r
}

// judge refuses another type and what holds a resource bad, and counts what it was asked.
type judge struct{ asked int }

func (j *judge) apply(_ context.Context, u Update) error {
	j.asked++
	if u.Type != configType {
		return errors.New("another type")
	}
	if slices.ContainsFunc(u.Resources, func(r *anypb.Any) bool { return string(r.GetValue()) == "bad" }) {
		return errors.New("bad")
	}
	return nil
}

// TestRefusalsArePaced is about a control plane that answers each refusal at once
// with another response that is refused.
func TestRefusalsArePaced(t *testing.T) {
	tests := []struct {
		name  string
		next  func(i int) *discovery.DiscoveryResponse
		asked int // how often Apply was
	}{
		{"same version", func(int) *discovery.DiscoveryResponse { return response(configType, "1", "bad") }, 1},
		{"no version", func(int) *discovery.DiscoveryResponse { return response(configType, "", "bad") }, 1},
		{"new versions", func(i int) *discovery.DiscoveryResponse { return response(configType, fmt.Sprint(i), "bad") }, 1},
		{"another order", func(i int) *discovery.DiscoveryResponse {
			values := []string{"bad", "good"}
			return response(configType, "1", values[i%2], values[(i+1)%2])
		}, 1},
		{"new resources", func(i int) *discovery.DiscoveryResponse { return response(configType, "", "bad", fmt.Sprint(i)) }, 5},
		{"another type", func(i int) *discovery.DiscoveryResponse { return response(clusterType, fmt.Sprint(i)) }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := time.Now()
				var refused []time.Duration
				dial := serve(t, func(stream adsStream) error {
					for i := 0; ; i++ {
						request, err := stream.Recv()
						if err != nil {
							return err
						}
						if refuses(request) {
							refused = append(refused, time.Since(started))
						}
						if err := stream.Send(tt.next(i)); err != nil {
							return err
						}
					}
				})
				var j judge
				inBubble(t, Options{Apply: j.apply, Retry: 3 * time.Second, Backoff: Backoff{Initial: time.Second, Max: time.Second}}, 10*time.Second, dial)
				want := []time.Duration{0, 3 * time.Second, 6 * time.Second, 9 * time.Second}
				if !slices.Equal(refused, want) {
					t.Errorf("refused after %v, want %v", refused, want)
				}
				if j.asked != tt.asked {
					t.Errorf("%d responses were judged, want %d", j.asked, tt.asked)
				}
			})
		})
	}
}

// TestGoodAfterBad sends responses without waiting for the answers.
func TestGoodAfterBad(t *testing.T) {
	good := response(configType, "1", "good")
	tests := []struct {
		name      string
		responses []*discovery.DiscoveryResponse
		want      []string // answers: after how long, nonce, accepted version, problem
	}{
		{"of a wrong type, same version", []*discovery.DiscoveryResponse{response(clusterType, "1"), good},
			[]string{`0s 0 "" another type`, `0s 1 "1" `}},
		{"same version", []*discovery.DiscoveryResponse{response(configType, "1", "bad"), good}, []string{`0s 0 "" bad`, `0s 1 "1" `}},
		{"after a refusal that is held back", []*discovery.DiscoveryResponse{response(configType, "", "bad"), response(configType, "2", "bad"), good},
			[]string{`0s 0 "" bad`, `3s 1 "" bad`, `3s 2 "1" `}},
		{"without a version", []*discovery.DiscoveryResponse{response(configType, "")}, []string{`0s 0 "" `}},
		{"and bad again", []*discovery.DiscoveryResponse{response(configType, "1", "bad"), good, response(configType, "1", "bad")},
			[]string{`0s 0 "" bad`, `0s 1 "1" `, `3s 2 "1" bad`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := time.Now()
				var answers []string
				dial := serve(t, func(stream adsStream) error {
					if _, err := stream.Recv(); err != nil {
						return err
					}
					for i, r := range tt.responses {
						r.Nonce = fmt.Sprint(i)
						if err := stream.Send(r); err != nil {
							return err
						}
					}
					for {
						request, err := stream.Recv()
						if err != nil {
							return err
						}
						answers = append(answers, fmt.Sprintf("%v %s %q %s", time.Since(started), request.GetResponseNonce(), request.GetVersionInfo(), request.GetErrorDetail().GetMessage()))
					}
				})
				var j judge
				inBubble(t, Options{Apply: j.apply, Retry: 3 * time.Second, Backoff: Backoff{Initial: time.Second, Max: time.Second}}, 10*time.Second, dial)
				if !slices.Equal(answers, tt.want) {
					t.Errorf("got %q, want %q", answers, tt.want)
				}
			})
		})
	}
}
