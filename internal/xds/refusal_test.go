package xds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/internal/testenv"
)

// response returns a response of a type, with a resource for each value.
func response(typeURL, version string, values ...string) *discovery.DiscoveryResponse {
	r := &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: version}
	for _, value := range values {
		r.Resources = append(r.Resources, &anypb.Any{TypeUrl: typeURL, Value: []byte(value)})
	}
	return r
}

// answered runs a client for ten seconds against a control plane whose responses next sends. It
// returns the client's answers, each with time, nonce, version and error, and the number of
// calls of Apply. Apply refuses other types and the resource "bad", and takes a second for the
// resource "slow".
func answered(t *testing.T, next func(send func(*discovery.DiscoveryResponse), answer int)) (answers []string, judged int) {
	t.Helper()
	started := time.Now()
	node := &core.Node{Id: "weir", Metadata: testenv.Must(structpb.NewStruct(map[string]any{"zone": "x"}))(t)}
	dial := serve(t, func(stream adsStream) error {
		sent := 0
		for i := 0; ; i++ {
			request, err := stream.Recv()
			if err != nil {
				return err
			}
			switch detail := request.GetErrorDetail(); {
			case i == 0:
				testenv.Equal(t, prototext.Format(request), prototext.Format(&discovery.DiscoveryRequest{TypeUrl: configType, Node: node}), "the first request")
			case detail != nil && codes.Code(detail.GetCode()) != codes.InvalidArgument:
				t.Errorf("refused by %v", detail)
				fallthrough
			default:
				answers = append(answers, fmt.Sprintf("%v %s %q %s", time.Since(started), request.GetResponseNonce(), request.GetVersionInfo(), request.GetErrorDetail().GetMessage()))
			}
			next(func(r *discovery.DiscoveryResponse) {
				r.Nonce = fmt.Sprint(sent)
				sent++
				_ = stream.Send(r)
			}, i)
		}
	})
	apply := func(_ context.Context, u Update) error {
		judged++
		if slices.ContainsFunc(u.Resources, func(r *anypb.Any) bool { return string(r.GetValue()) == "slow" }) {
			time.Sleep(time.Second)
		}
		if u.Type != configType {
			return errors.New("another type")
		}
		if slices.ContainsFunc(u.Resources, func(r *anypb.Any) bool { return string(r.GetValue()) == "bad" }) {
			return errors.New("bad")
		}
		return nil
	}
	client := inBubble(t, Options{
		NodeID: "weir", NodeMetadata: map[string]string{"zone": "x"}, Apply: apply,
		Retry: 3 * time.Second, BackoffInitial: time.Second, BackoffMax: time.Second,
	}, 10*time.Second, dial)
	if got := client.Status(); !got.Connected || got.Err != nil || testutil.ToFloat64(client.connected) != 1 {
		t.Errorf("status: %+v", got)
	}
	return answers, judged
}

// TestRefusalsArePaced has a control plane that immediately answers each refusal with another bad response.
func TestRefusalsArePaced(t *testing.T) {
	for name, tt := range map[string]struct {
		next   func(i int) *discovery.DiscoveryResponse
		judged int
	}{
		"same version": {func(int) *discovery.DiscoveryResponse { return response(configType, "1", "bad") }, 1},
		"new versions": {func(i int) *discovery.DiscoveryResponse { return response(configType, fmt.Sprint(i), "bad") }, 1},
		"another order": {func(i int) *discovery.DiscoveryResponse {
			values := []string{"bad", "good"}
			return response(configType, "1", values[i%2], values[(i+1)%2])
		}, 1},
		"new resources": {func(i int) *discovery.DiscoveryResponse { return response(configType, "", "bad", fmt.Sprint(i)) }, refusalsAtOnce + 4},
		"another type":  {func(i int) *discovery.DiscoveryResponse { return response("cluster", fmt.Sprint(i)) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers, judged := answered(t, func(send func(*discovery.DiscoveryResponse), i int) { send(tt.next(i)) })
				var refused []string
				for _, answer := range answers {
					var at string
					fmt.Sscan(answer, &at)
					refused = append(refused, at)
				}
				if want := []string{"0s", "0s", "0s", "0s", "3s", "6s", "9s"}; !slices.Equal(refused, want) || judged != tt.judged {
					t.Errorf("refused after %v, want %v; %d responses were judged, want %d", refused, want, judged, tt.judged)
				}
			})
		})
	}
}

// TestGoodAfterBad sends each response after the answer to the previous one.
func TestGoodAfterBad(t *testing.T) {
	good, bad := response(configType, "1", "good"), response(configType, "2", "bad")
	for name, tt := range map[string]struct {
		responses []*discovery.DiscoveryResponse
		want      []string
	}{
		"of a wrong type, same version": {[]*discovery.DiscoveryResponse{response("cluster", "1"), good}, []string{`0s 0 "" another type`, `0s 1 "1" `}},
		"same version":                  {[]*discovery.DiscoveryResponse{response(configType, "1", "bad"), good}, []string{`0s 0 "" bad`, `0s 1 "1" `}},
		"twice":                         {[]*discovery.DiscoveryResponse{bad, bad, good}, []string{`0s 0 "" bad`, `0s 1 "2" bad`, `0s 2 "1" `}},
		"without a version":             {[]*discovery.DiscoveryResponse{response(configType, "")}, []string{`0s 0 "" `}},
		"none":                          {[]*discovery.DiscoveryResponse{good, response(configType, "2")}, []string{`0s 0 "1" `, `0s 1 "2" `}},
		"and bad again":                 {[]*discovery.DiscoveryResponse{bad, good, bad}, []string{`0s 0 "" bad`, `0s 1 "1" `, `0s 2 "1" bad`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers, _ := answered(t, func(send func(*discovery.DiscoveryResponse), answer int) {
					if answer < len(tt.responses) {
						send(tt.responses[answer])
					}
				})
				testenv.EqualLists(t, answers, tt.want, "answers")
			})
		})
	}
}

// TestOnlyTheNewestIsJudged sends thousands of bad responses and then a good one, all during one
// call of Apply.
func TestOnlyTheNewestIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, judged := answered(t, func(send func(*discovery.DiscoveryResponse), answer int) {
			if answer > 0 {
				return
			}
			send(response(configType, "slow", "slow"))
			time.Sleep(time.Millisecond)
			for i := range 2058 {
				send(response(configType, "", "bad", fmt.Sprint(i)))
			}
			send(response(configType, "good", "good"))
		})
		if want := []string{`1s 0 "slow" `, `1s 2059 "good" `}; !slices.Equal(answers, want) || judged != 2 {
			t.Errorf("got %q, want %q; %d were judged, want 2", answers, want, judged)
		}
	})
}

// TestLoadsArePaced has a control plane that sends another good response every three milliseconds.
func TestLoadsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, judged := answered(t, func(send func(*discovery.DiscoveryResponse), answer int) {
			for i := 0; answer == 0 && i < 2848; i++ {
				send(response(configType, fmt.Sprint(i), fmt.Sprint(i)))
				time.Sleep(3 * time.Millisecond)
			}
		})
		if most := refusalsAtOnce + int(10*time.Second/loadInterval); judged < 2 || judged > most {
			t.Errorf("%d responses in ten seconds were applied, want 2 to %d", judged, most)
		}
	})
}

// TestEndedStream checks that the last response of a stream is applied, although the stream ends
// during an earlier call of Apply.
func TestEndedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := 0
		dial := serve(t, func(stream adsStream) error {
			if streams++; streams > 1 {
				<-stream.Context().Done()
				return nil
			}
			_ = stream.Send(response(configType, "1"))
			time.Sleep(time.Second)
			return stream.Send(response(configType, "2"))
		})
		var applied []string
		inBubble(t, Options{Retry: time.Second, BackoffInitial: time.Second, BackoffMax: time.Second, Apply: func(ctx context.Context, u Update) error {
			time.Sleep(2 * time.Second)
			applied = append(applied, fmt.Sprint(u.Version, " ", ctx.Err()))
			return nil
		}}, 10*time.Second, dial)
		testenv.EqualLists(t, applied, []string{"1 <nil>", "2 <nil>"}, "what is applied")
	})
}
