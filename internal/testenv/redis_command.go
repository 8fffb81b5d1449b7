package testenv

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Command sends a command and returns its reply, which may be a simple string, a bulk string, or a
// number. If the command fails, Command fails the test.
func (r *Redis) Command(words ...string) string {
	r.t.Helper()
	reply, err := r.try(strings.Join(words, " "))
	if err != nil {
		r.t.Fatalf("%s of %s: %v", strings.Join(words, " "), r.addr, err)
	}
	return reply
}

func (r *Redis) try(line string) (string, error) {
	conn, err := net.DialTimeout("tcp", r.addr, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // if it fails, so does send
	reader := bufio.NewReader(conn)
	if r.password != "" {
		_, _ = send(conn, reader, "auth "+r.password) // if it fails, so does the command
	}
	return send(conn, reader, line)
}

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }

// send sends a command and reads its reply.
func send(conn io.Writer, reader *bufio.Reader, command string) (string, error) {
	_, _ = fmt.Fprintf(conn, "%s\r\n", command) // if it fails, there is no reply
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	switch text := strings.TrimSpace(line[1:]); line[0] {
	case '-':
		return "", replyError(text)
	case '$':
		n, _ := strconv.Atoi(text)
		bulk := make([]byte, max(n, 0))
		_, err = io.ReadFull(reader, bulk)
		return string(bulk), err
	default:
		return text, nil
	}
}
