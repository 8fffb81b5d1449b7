package rls

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// JSONHandler serves POST /json for clients without gRPC. The body of the request is a
// RateLimitRequest in protobuf JSON, and the body of the response is a RateLimitResponse. The
// status is 200, or 429 if the request is denied. Unless waiting is useless, a response to a denied
// request has the headers Retry-After, in whole seconds, and Retry-After-Ms, in milliseconds, for
// OpenAI clients. They are headers because strict clients of protobuf JSON refuse unknown members.
//
// The response to a request that was not decided is a sentence in plain text. The status is 400 if
// the request is invalid, 405 if the method is not POST, 413 if the body is too large, and 503 with
// Retry-After if the store failed, no rules are loaded or too many requests are in flight.
func (s *Service) JSONHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST is allowed", http.StatusMethodNotAllowed)
			return
		}
		code, body, err := s.decideJSON(w, r)
		if err != nil {
			switch grpcstatus.Code(err) {
			case codes.InvalidArgument:
				code = http.StatusBadRequest
			case codes.OutOfRange:
				code = http.StatusRequestEntityTooLarge
			case codes.Internal:
				code = http.StatusInternalServerError
			default:
				code = http.StatusServiceUnavailable
				w.Header().Set("Retry-After", "1") // a guess, because the end of the outage is unknown
			}
			http.Error(w, plaintext.Lines(grpcstatus.Convert(err).Message()), code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write(append(body, '\n')) //nolint:gosec // the body is JSON, not HTML, and an error means that the client has left
	})
}

// decideJSON decides the request in the body of r. It returns the status and the body of the
// response, and sets the headers of a response to a denied request. Its errors are gRPC
// statuses.
func (s *Service) decideJSON(w http.ResponseWriter, r *http.Request) (code int, body []byte, err error) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	c.began = time.Now()
	defer s.metrics.json.observe(c.began)
	if c.wire, err = readJSON(w, r); err != nil {
		s.metrics.serviceErrors.Inc()
		return 0, nil, err
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	if err = s.decide(ctx, c); err != nil {
		return 0, nil, err
	}
	var response ratelimitv3.RateLimitResponse
	if err = proto.Unmarshal(c.response, &response); err == nil {
		body, err = protojson.Marshal(&response)
	}
	if err != nil {
		return 0, nil, grpcstatus.Errorf(codes.Internal, "writing the response as JSON: %v", err)
	}
	if response.OverallCode != ratelimitv3.RateLimitResponse_OVER_LIMIT {
		return http.StatusOK, body, nil
	}
	if len(c.result.Statuses) == 0 { // the request was too large to be decided
		return http.StatusTooManyRequests, body, nil
	}
	if wait := c.result.RetryAfter(); wait != limiter.Never {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(plan.RoundUp(wait, time.Second)/time.Second), 10))
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(plan.RoundUp(wait, time.Millisecond).Milliseconds(), 10))
	}
	return http.StatusTooManyRequests, body, nil
}

// SmallJSON is the maximum size in bytes of a small body of POST /json. Larger bodies are decoded
// one at a time, because a body with many empty objects takes a hundred times its size when
// decoded: 120 MB for the longest body.
const SmallJSON = 16 << 10

var largeJSON sync.Mutex

// readJSON reads the RateLimitRequest in the body of r and returns it in protobuf's wire format.
// Its errors are gRPC statuses: OutOfRange if the body is too large, else InvalidArgument.
func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, grpcstatus.Errorf(codes.OutOfRange, "the body has more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, grpcstatus.Error(codes.InvalidArgument, "cannot read the body")
	}
	if len(body) > SmallJSON {
		largeJSON.Lock()
		defer largeJSON.Unlock()
	}
	var request ratelimitv3.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		return nil, grpcstatus.Errorf(codes.InvalidArgument, "the body is not a RateLimitRequest: %v", err)
	}
	return proto.Marshal(&request)
}
