package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// draw writes the plots, and the tables in the documents.
func draw(root string, r *results) error {
	files, err := drawn(root, r)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o644); err != nil { //nolint:gosec // a file of the repository
			return err
		}
	}
	return nil
}

// drawn returns the contents of the files that show the results, by name. Comments in the
// documents mark the positions of the tables.
func drawn(root string, r *results) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, plot := range map[string]func(*results) ([]byte, error){
		"latency.svg":     latencyPlot,
		"descriptors.svg": descriptorsPlot,
		"rules.svg":       rulesPlot,
	} {
		data, err := plot(r)
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", name, err)
		}
		files[filepath.Join(root, plots, name)] = data
	}
	for _, document := range documents {
		name := filepath.Join(root, document.name)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if files[name], err = document.withTables(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}

// plots is the directory of the plots and of results.json.
const plots = "docs/performance"

// document is a document with tables of results.
type document struct {
	name   string
	tables []namedTable
}

// namedTable is a table with the name that marks its position in the document.
type namedTable struct {
	name string
	text func(*results) string
}

var documents = []document{
	{"docs/performance.md", []namedTable{{"latency", latencyTable}}},
	{"bench/README.md", []namedTable{
		{"machine", machineLine},
		{"targets", targetsTable},
		{"redistargets", redisTargetsTable},
		{"cost", costTable},
		{"ways", waysTable},
		{"lines", linesTable},
		{"wakeups", wakeupsTable},
		{"descriptors", descriptorsTable},
		{"connections", connectionsTable},
		{"rules", rulesTable},
		{"counters", countersTable},
		{"tuning", tuningTable},
		{"denials", denialsTable},
		{"keys", keysTable},
	}},
	{"docs/scale.md", []namedTable{
		{"capacity", capacityTable},
		{"machines", machinesTable},
		{"cluster", clusterTable},
	}},
}

// withTables returns the document with new tables.
func (d document) withTables(text []byte, r *results) ([]byte, error) {
	for _, table := range d.tables {
		begin, end := fmt.Appendf(nil, "<!-- %s -->\n", table.name), fmt.Appendf(nil, "\n<!-- end of %s -->\n", table.name)
		before, rest, found := bytes.Cut(text, begin)
		_, after, closed := bytes.Cut(rest, end)
		if !found || !closed {
			return nil, fmt.Errorf("no place for the table %s", table.name)
		}
		text = bytes.Join([][]byte{before, begin, []byte(table.text(r)), end, after}, nil)
	}
	return text, nil
}
