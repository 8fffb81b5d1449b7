package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/descriptors/regularfile"
)

// longest bounds a secret, in bytes.
const longest = 64 << 10

// File reads the secret in a file, without white space around it.
func File(path string) (string, error) {
	f, _, err := regularfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, longest+1))
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
		return "", errors.New("it is empty, allowed is a secret")
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n\r"):
		return "", errors.New("it is more than one line, or no UTF-8")
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
	setGroup(command)
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
			return "", fmt.Errorf("what the command prints: %w", err)
		}
		return text, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("the command does not end within %v", commandTime)
	case ctx.Err() != nil:
		return "", errors.New("the command was interrupted")
	case errors.As(err, &exit):
		return "", fmt.Errorf("the command fails: %v", exit.ProcessState)
	case errors.As(err, &unknown):
		err = unknown.Err
	case errors.As(err, &path):
		err = path.Err
	}
	return "", fmt.Errorf("the command cannot be run: %w", err)
}

// bounded keeps the first bytes that are written: one more than are allowed.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), longest+1-b.Len())])
	return len(p), nil
}
