package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// heldPatience is the time for which a server waits for a heldRedis.
const heldPatience = time.Minute

// heldRedis starts a Redis that decides nothing until release is closed, and returns the flags of a
// server that waits for it. asked receives a value when Redis gets the first request.
func heldRedis(t *testing.T) (flags []string, asked <-chan struct{}, release chan struct{}) {
	t.Helper()
	redis := miniredis.RunT(t)
	first := make(chan struct{}, 1)
	release = make(chan struct{})
	redis.Server().SetPreHook(func(_ *miniserver.Peer, command string, args ...string) bool {
		const key = 2 // index of the first key; the keys of probes and shared data are not in the rules' domain
		if strings.HasPrefix(strings.ToUpper(command), "EVAL") && strings.Contains(args[key], "|api|") {
			select {
			case first <- struct{}{}:
			default:
			}
			<-release
		}
		return false
	})
	wait := heldPatience.String()
	return []string{"--redis-url=" + redis.Addr(), "--redis-timeout=" + wait}, first, release
}

func TestDrainLetsAnHTTPRequestFinish(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(3)))
	body, send := io.Pipe()
	statuses := make(chan int, 1)
	go func() {
		defer close(statuses)
		request, _ := http.NewRequest(http.MethodPost, "http://"+f.HTTPAddr()+"/json", body)
		request.Header.Set("Expect", "100-continue")
		response, err := f.http.Do(request)
		if err == nil {
			response.Body.Close()
			statuses <- response.StatusCode
		}
	}()
	fmt.Fprint(send, `{"domain": "api", `) // returns when the server has begun to read
	f.stop()
	testenv.Until(t, "nobody listens", func() bool {
		conn, err := net.Dial("tcp", f.HTTPAddr())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	fmt.Fprint(send, `"descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`)
	send.Close()
	testenv.Equal(t, <-statuses, http.StatusOK, "status of the request in flight")
	testenv.OK(t, f.wantEnd())
}

// TestPauseIsLogged checks that a drain delay is logged when it begins. After SIGINT, or with a
// delay of 0, the drain begins immediately.
func TestPauseIsLogged(t *testing.T) {
	hurry, hurryUp := context.WithCancel(t.Context())
	hurryUp()
	for name, tt := range map[string]struct {
		delay time.Duration
		hurry context.Context
		want  time.Duration
	}{"a pause": {time.Minute, context.Background(), time.Minute}, "no delay": {0, context.Background(), 0}, "in a hurry": {time.Minute, hurry, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var log testenv.Log
			a := &App{opts: Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Hurry: tt.hurry}}
			a.opts.Settings.Process.DrainDelay = tt.delay
			begun := time.Now()
			testenv.OK(t, a.leave(nil))
			took, logged := time.Since(begun), strings.Contains(log.String(), `msg="shutting down: health checks fail, requests are still answered" at_most=1m0s`)
			if took != tt.want || logged != (tt.want > 0) {
				t.Errorf("%s takes %v, want %v; it is logged: %t", name, took, tt.want, logged)
			}
		})
	}
}

func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	onRedis, asked, release := heldRedis(t)
	t.Cleanup(func() { close(release) })
	f := start(t, append(onRedis, "--config="+directory(t, limited(3)), "--drain-timeout=50ms")...)
	answered := make(chan error, 1)
	go func() {
		_, err := f.ask(context.Background(), "alice")
		answered <- err
	}()
	<-asked
	f.stop()
	if err := f.wantEnd(); err == nil || !strings.Contains(err.Error(), "stopping gRPC: requests cut off") {
		t.Errorf("Run returned %v", err)
	}
	testenv.Equal(t, status.Code(<-answered), codes.Unavailable, "the request in flight")
}

func TestFollowedHealthDoesNotHoldUpTheDrain(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(3)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	follow := testenv.Must(grpc_health_v1.NewHealthClient(f.conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{}))(t)
	testenv.Until(t, "it serves", func() bool {
		return testenv.Must(follow.Recv())(t).Status == grpc_health_v1.HealthCheckResponse_SERVING
	})
	f.leave()
	if response, err := follow.Recv(); err != nil || response.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("before the drain: %v (error: %v)", response, err)
	}
	f.stop()
	_, err := follow.Recv()
	testenv.Equal(t, status.Code(err), codes.Unavailable, "the end of the stream")
	testenv.OK(t, f.wantEnd()) // without the error of a timeout
}

func TestRunEndsWhenAListenerFails(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(3)))
	f.debug.listener.Close()
	if err := f.wantEnd(); err == nil || !strings.Contains(err.Error(), "serving debug") {
		t.Errorf("Run returned %v", err)
	}
}
