package settings

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write docs/settings.md and docs/compatibility.md anew")

const document = "../../docs/settings.md"

const introduction = `# Settings

<!-- Written by: go test ./internal/settings -update -->

Every setting of ` + "`weir serve`" + ` is a flag and an environment variable. A flag wins over its variable, a variable over the default, and a variable that is set to nothing counts as
unset. Other variables are ignored, except for some [of envoyproxy/ratelimit](compatibility.md). Durations are written like ` + "`500ms`, `10s`, `1m30s` or `24h`" + `, switches
are true, t, yes, 1 or false, f, no, 0. A value that is not allowed is an error at start, which names the setting and what is allowed.
`

// TestDocument keeps docs/settings.md and the settings the same.
func TestDocument(t *testing.T) {
	want := introduction
	group := ""
	for _, flag := range flags(t) {
		if flag.Group.Title != group {
			group = flag.Group.Title
			want += fmt.Sprintf("\n## %s\n\n| flag | environment | default | unit | meaning |\n|---|---|---|---|---|\n", strings.TrimSuffix(group, ":"))
		}
		want += fmt.Sprintf("| `--%s` | `%s` | %s | %s | %s |\n", flag.Name, flag.Envs[0], code(flag.Default), unit(t, flag), strings.ReplaceAll(flag.Help, "|", `\|`))
	}
	compareDocument(t, document, want)
}

// compareDocument compares a document with what it should be, or writes it.
func compareDocument(t *testing.T, document, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s does not say what the settings are; run: go test ./internal/settings -update", document)
	}
}

// TestEverySettingIsComplete holds the struct to what the document promises.
func TestEverySettingIsComplete(t *testing.T) {
	taken := map[string]string{}
	for _, flag := range flags(t) {
		if len(flag.Envs) != 1 {
			t.Errorf("--%s has %d variables, want 1", flag.Name, len(flag.Envs))
			continue
		}
		env := flag.Envs[0]
		if other, ok := taken[env]; ok {
			t.Errorf("--%s and --%s share %s", flag.Name, other, env)
		}
		taken[env] = flag.Name
		switch env {
		case "REDIS_PORT", "REDIS_HOST", "RATELIMIT_PORT":
			t.Errorf("--%s: Kubernetes sets %s for a service of that name", flag.Name, env)
		}
		if !strings.HasSuffix(flag.Help, ".") {
			t.Errorf("--%s: help %q is no sentence", flag.Name, flag.Help)
		}
		if flag.Default == "" && flag.PlaceHolder == "" {
			t.Errorf("--%s has neither default nor placeholder", flag.Name)
		}
		for _, bound := range []string{flag.Tag.Get("min"), flag.Tag.Get("max")} {
			if bound != "" {
				number(bound) // panics where a tag is wrong
			}
		}
	}
}

func TestHelpNamesEverything(t *testing.T) {
	var cli struct{ Settings }
	var help strings.Builder
	parser := newParser(t, &cli, kong.Writers(&help, &help), kong.Exit(func(int) {}))
	if _, err := parser.Parse([]string{"--help"}); err != nil {
		t.Fatal(err)
	}
	for _, flag := range flags(t) {
		for _, want := range []string{"--" + flag.Name, "$" + flag.Envs[0], flag.FormatPlaceHolder()} {
			if !flag.IsBool() && !strings.Contains(help.String(), want) {
				t.Errorf("help does not contain %s", want)
			}
		}
	}
}

// flags lists the settings in their order.
func flags(t *testing.T) []*kong.Flag {
	var cli struct{ Settings }
	return newParser(t, &cli, kong.NoDefaultHelp()).Model.Flags
}

// unit says in what a setting is given, and its range.
func unit(t *testing.T, flag *kong.Flag) string {
	tag := flag.Tag.Get("unit")
	if span := allowed(flag.Tag); span != "" {
		return baseUnit(t, flag, tag) + ", " + span
	}
	return baseUnit(t, flag, tag)
}

func baseUnit(t *testing.T, flag *kong.Flag, tag string) string {
	switch {
	case tag != "":
		return tag
	case flag.Target.Type() == reflect.TypeFor[time.Duration]():
		return "duration"
	case flag.IsBool():
		return "switch"
	case flag.Target.Kind() == reflect.String, flag.Target.Type() == reflect.TypeFor[LogLevel]():
		return "text"
	}
	t.Errorf("--%s has no unit", flag.Name)
	return ""
}

func code(s string) string {
	if s == "" {
		return "none"
	}
	return "`" + s + "`"
}
