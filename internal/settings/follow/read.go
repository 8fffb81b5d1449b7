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

var errNotRegular = errors.New("it is not a regular file, allowed are regular files and links to them")

// readFile reads at most so many bytes of a regular file, or of what a link to one leads to.
// Anything else is an error: reads of a pipe may never end.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened, which may have taken the place of a file
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errNotRegular
	default:
		data, err = io.ReadAll(io.LimitReader(f, most))
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

// maxPEM bounds a file of certificates. Those of all public authorities are 300 KB.
const maxPEM = 16 << 20

var errTooLarge = errors.New("it is larger than 16 MiB")

// PEM reads a regular file of certificates or of a key, of 16 MiB at most.
func PEM(path string) ([]byte, error) {
	data, err := readFile(path, maxPEM+1)
	if len(data) > maxPEM {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errTooLarge}
	}
	return data, err
}

// longest bounds a secret, in bytes.
const longest = 64 << 10

// File reads the secret in a file, without white space around it.
func File(path string) (string, error) {
	data, err := readFile(path, longest+1)
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
	case len(data) > longest:
		return "", fmt.Errorf("it is longer than %d bytes", longest)
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
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	command := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the operator names it
	command.WaitDelay = lastWords
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with what it starts
	command.Cancel = func() error {
		killGroup(command)
		return command.Process.Kill()
	}
	out := new(bounded)
	command.Stdout = out
	err := command.Run()
	if err != nil && command.Process != nil {
		endGroup(command) // the command may have ended before those that it has started
	}
	var exit *exec.ExitError
	var unknown *exec.Error
	var path *fs.PathError
	switch {
	case err == nil:
		text, err := clean(out.Bytes())
		if err != nil {
			return "", fmt.Errorf("output of the command: %w", err)
		}
		return text, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("the command did not finish within %v", commandTime)
	case ctx.Err() != nil:
		return "", errors.New("the command was interrupted")
	case errors.As(err, &exit):
		return "", fmt.Errorf("the command failed: %v", exit.ProcessState)
	case errors.As(err, &unknown):
		err = unknown.Err
	case errors.As(err, &path):
		err = path.Err
	}
	return "", fmt.Errorf("cannot run the command: %w", err)
}

// bounded keeps the first bytes that are written: one more than are allowed.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), longest+1-b.Len())])
	return len(p), nil
}

// killGroup kills the processes of a command's group that are left. The group has the ID of
// the command's process.
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }

// endGroup kills the group of a command that has ended. The first process of a container
// becomes the parent of what is left: there nobody else would wait for them, and each would
// keep its entry in the table of processes.
func endGroup(c *exec.Cmd) {
	killGroup(c)
	var err error
	for err == nil || errors.Is(err, syscall.EINTR) { // until there is none
		_, err = syscall.Wait4(-c.Process.Pid, nil, 0, nil)
	}
}
