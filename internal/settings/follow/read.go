package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// Most bytes of a file of certificates and of a secret. The certificates of all public
// authorities are 300 KB.
const (
	maxPEM    = 16 << 20
	maxSecret = 64 << 10
)

// read reads a regular file of at most so many bytes, or what a link to one leads to.
// Anything else is an error: reads of a pipe may never end.
func read(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data []byte
	info, err := f.Stat() // of what was opened, which may have taken the place of a file
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file; use a regular file or a link to a regular file")
	}
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, most+1))
	}
	if int64(len(data)) > most {
		err = fmt.Errorf("it is longer than %d bytes", most)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

// File reads the secret in a file, without white space around it.
func File(path string) (string, error) {
	data, err := read(path, maxSecret)
	if err != nil {
		return "", err
	}
	text, err := clean(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// clean returns a secret without white space around it.
func clean(data []byte) (string, error) {
	text := strings.TrimSpace(string(data))
	switch {
	case text == "":
		return "", errors.New("it is empty")
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n\r"):
		return "", errors.New("it has several lines or is not UTF-8")
	}
	return text, nil
}

const (
	// commandTime bounds how long a command may run.
	commandTime = 10 * time.Second
	// lastWords bounds how long what a command has started may hold its output.
	lastWords = time.Second
)

// Command runs a program, which is the first of the words, and returns what it prints,
// without white space around it. There is no shell. If the program fails, or is killed because
// it is too slow or ctx ends, the processes that it has started are killed, too. Errors hold
// neither the words nor what the program writes, also to its standard error: either may be
// secret.
func Command(ctx context.Context, words []string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, fmt.Errorf("it did not finish within %v", commandTime))
	defer cancel()
	command := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the operator names it
	command.WaitDelay = lastWords
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with what it starts, under its own ID
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	out := new(bounded)
	command.Stdout = out
	err := command.Run()
	if err != nil && command.Process != nil {
		// The command may have ended before those that it has started. The first process of a
		// container becomes their parent: nobody else would wait for them there, and each would
		// keep its entry in the table of processes.
		_ = command.Cancel()
		for left := error(nil); left == nil || errors.Is(left, syscall.EINTR); {
			_, left = syscall.Wait4(-command.Process.Pid, nil, 0, nil)
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if inner := errors.Unwrap(err); inner != nil {
		err = inner // the outer one names the program
	}
	if err != nil {
		return "", fmt.Errorf("the command failed: %w", err)
	}
	if out.Len() > maxSecret {
		return "", fmt.Errorf("output of the command: it is longer than %d bytes", maxSecret)
	}
	text, err := clean(out.Bytes())
	if err != nil {
		return "", fmt.Errorf("output of the command: %w", err)
	}
	return text, nil
}

// bounded keeps the first bytes that are written: one more than are allowed.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxSecret+1-b.Len())])
	return len(p), nil
}
