package server

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"weir/internal/testenv"
)

func TestHeadersThatNobodyReadsAreDropped(t *testing.T) {
	header := metadata.Pairs("traceparent", "a", "attack-bin", "b", "attack-bin", "c", ":authority", "d")
	testenv.Must(beforeCall(propagator.Fields(), crowded)(t.Context(), &tap.Info{Header: header}))(t)
	if want := metadata.Pairs("traceparent", "a"); !reflect.DeepEqual(header, want) {
		t.Errorf("%v are left, want %v", header, want)
	}
}

func TestCallsOfACrowdHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			crowded  int
			method   string
			own      time.Duration // of the client, 0: none
			deadline time.Duration
		}{
			{0, grpc_health_v1.Health_Check_FullMethodName, 0, patienceOfCalls},
			{0, grpc_health_v1.Health_Check_FullMethodName, time.Hour, patienceOfCalls},
			{0, grpc_health_v1.Health_Check_FullMethodName, time.Second, time.Second},
			{1 << 30, grpc_health_v1.Health_Check_FullMethodName, 0, 0},
			{0, grpc_health_v1.Health_Watch_FullMethodName, 0, 0},
			{0, grpc_health_v1.Health_Watch_FullMethodName, time.Hour, time.Hour},
			{0, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", 0, patienceOfCalls},
		} {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if tt.own > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.own)
			}
			ctx = testenv.Must(beforeCall(nil, tt.crowded)(ctx, &tap.Info{FullMethodName: tt.method}))(t)
			deadline, has := ctx.Deadline()
			if has != (tt.deadline > 0) || has && time.Until(deadline) != tt.deadline {
				t.Errorf("%s with a deadline of %v: it ends at %v (%t), want after %v", tt.method, tt.own, deadline, has, tt.deadline)
			}
			cancel()
		}
	})
}
