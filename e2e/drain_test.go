package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

// A decision that is under way when the process is told to end is still given,
// and the process ends with exit code 0.
func TestTerminationDrains(t *testing.T) {
	t.Parallel()
	const rules = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]\n"
	s := startGateway(t, gateway{}, startUpstream(t), rules, "DRAIN_TIMEOUT=50s")
	s.want("/", "x-user: alice", 200)

	// Redis takes the scripts of Weir and holds them back until told otherwise.
	redisCommand(t, s.redis, "CLIENT PAUSE 60000 WRITE")
	answers := s.askInBackground("/", "alice")
	waitForHeldScript(t, s.redis)

	s.weir.signal(syscall.SIGINT) // without the pause that comes after SIGTERM
	testenv.Eventually(t, func() error {
		if conn, err := net.Dial("tcp", s.weir.grpc); err == nil {
			conn.Close()
			return errors.New("Weir still listens")
		}
		return nil
	})
	redisCommand(t, s.redis, "CLIENT UNPAUSE")

	if a := <-answers; a.status != 200 {
		t.Errorf("the request in flight got %d, want 200", a.status)
	}
	if code := s.weir.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// waitForHeldScript waits until a paused Redis holds a script of Weir back.
func waitForHeldScript(t *testing.T, r *testenv.Redis) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if info := redisCommand(t, r, "INFO clients"); strings.Contains(info, "blocked_clients:0\r") {
			return errors.New(info)
		}
		return nil
	})
}

// redisCommand sends one command and returns the reply, undecoded.
func redisCommand(t *testing.T, r *testenv.Redis, command string) string {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", r.Addr()))(t)
	defer conn.Close()
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	testenv.Must(fmt.Fprintf(conn, "%s\r\n", command))(t)
	reader := bufio.NewReader(conn)
	reply, err := reader.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	switch reply[0] {
	case '-':
		t.Fatalf("%s: %s", command, reply)
	case '$': // a text of so many bytes follows
		var size int
		if _, err := fmt.Sscanf(reply, "$%d", &size); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		text := make([]byte, size)
		if _, err := io.ReadFull(reader, text); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return string(text)
	}
	return reply
}
