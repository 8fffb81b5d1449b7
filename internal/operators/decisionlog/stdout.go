package decisionlog

import (
	"context"
	"io"
)

// Lines writes each record as a line of JSON.
type Lines struct{ W io.Writer }

// Write implements Sink. It does not end with its context if the writer hangs.
func (l Lines) Write(_ context.Context, batch []Record) error {
	var text []byte
	for i := range batch {
		text = append(text, batch[i].fields().JSON()...)
	}
	_, err := l.W.Write(text)
	return err
}

// Close implements Sink.
func (Lines) Close(context.Context) error { return nil }
