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

// Maximum sizes of a PEM file and of a secret, in bytes. The certificates of all public authorities
// take 300 KB.
const (
	maxPEM    = 16 << 20
	maxSecret = 64 << 10
)

// read reads a regular file, or the target of a link, of at most maxSize bytes. It fails for other
// kinds of files, because reading from a pipe may never end.
func read(path string, maxSize int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data []byte
	info, err := f.Stat() // of the open file, because path may name another file by now
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file; use a regular file or a link to a regular file")
	}
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, maxSize+1))
	}
	if int64(len(data)) > maxSize {
		err = fmt.Errorf("it is longer than %d bytes", maxSize)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

// File returns the secret in a file, without surrounding white space.
func File(path string) (string, error) {
	data, err := read(path, maxSecret)
	if err != nil {
		return "", err
	}
	return clean(path, data)
}

// clean returns a secret without surrounding white space, or an error if it is too long, empty or
// not one line of UTF-8. The error names the source.
func clean(source string, data []byte) (string, error) {
	switch text := strings.TrimSpace(string(data)); {
	case len(data) > maxSecret:
		return "", fmt.Errorf("%s: it is longer than %d bytes", source, maxSecret)
	case text == "":
		return "", fmt.Errorf("%s: it is empty", source)
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n\r"):
		return "", fmt.Errorf("%s: it has several lines or is not UTF-8", source)
	default:
		return text, nil
	}
}

const (
	// commandTime is the time limit of a command.
	commandTime = 10 * time.Second
	// lastWords is the time for which child processes may keep the output open after the command has
	// ended.
	lastWords = time.Second
)

// Command runs the program words[0] with the other words as arguments, without a shell, and returns
// its standard output without surrounding white space. It kills the program after commandTime or
// when ctx ends. If the program fails or is killed, its child processes are killed, too. Errors
// contain neither the words nor any output, because both may be secret.
func Command(ctx context.Context, words []string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, fmt.Errorf("it did not finish within %v", commandTime))
	defer cancel()
	command := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the operator names it
	command.WaitDelay = lastWords
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a process group for the command and its children
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	out := new(bounded)
	command.Stdout = out
	err := command.Run()
	if err != nil && command.Process != nil {
		// The command may have ended before its children. In a container, this process may be their
		// new parent. Without a wait, they would stay in the process table.
		_ = command.Cancel()
		for left := error(nil); left == nil || errors.Is(left, syscall.EINTR); {
			_, left = syscall.Wait4(-command.Process.Pid, nil, 0, nil)
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if inner := errors.Unwrap(err); inner != nil {
		err = inner // the outer error names the program
	}
	if err != nil {
		return "", fmt.Errorf("the command failed: %w", err)
	}
	return clean("output of the command", out.Bytes())
}

// bounded keeps the first maxSecret+1 bytes of the output and drops the rest.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxSecret+1-b.Len())])
	return len(p), nil
}
