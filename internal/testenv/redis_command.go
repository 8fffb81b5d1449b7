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
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	if r.password != "" {
		if _, err := send(conn, reader, "auth "+r.password); err != nil {
			return "", err
		}
	}
	return send(conn, reader, line)
}

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }

// send sends a command and reads its reply.
func send(conn io.Writer, reader *bufio.Reader, command string) (string, error) {
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	switch text := strings.TrimSpace(line[1:]); line[0] {
	case '-':
		return "", replyError(text)
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil {
			return "", err
		}
		bulk := make([]byte, max(n, 0))
		_, err = io.ReadFull(reader, bulk)
		return string(bulk), err
	default:
		return text, nil
	}
}
